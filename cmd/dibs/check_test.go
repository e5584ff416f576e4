package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/open"
)

// Rows that were deleted with SQL leave wrong counts: check finds them, and mends them when
// told to. What else is wrong stays, and says so.
func TestCheckRepairsWhatSQLByHandHasLeft(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.ok("check", "--repair", "--json"); got != `{"mended":[],"findings":[]}`+"\n" {
			t.Errorf("without damage, dibs check --repair --json writes %q", got)
		}
		if got := c.ok("check", "--repair"); got != "nothing wrong\n" {
			t.Errorf("without damage, dibs check --repair writes %q", got)
		}
		c.feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.bySQL("delete from %sjob where id in (1, 2)")
		if r := c.run("", "check"); r.code != exitFailure || r.out != "queue q: counted 3 waiting, there are 1\n" {
			t.Errorf("dibs check ends with %d and writes %q", r.code, r.out)
		}
		if got := c.ok("check", "--repair"); got != "mended: queue q: counted 3 waiting, there are 1\n" {
			t.Errorf("dibs check --repair writes %q", got)
		}
		c.has(c.stats("q"), object{"waiting": 1})
		c.bySQL("update %sjob set attempt = 1000")
		r := c.run("", "check", "--repair", "--json")
		want := `{"mended":[],"findings":["job 3: 1000 attempts count, 25 are allowed"]}` + "\n"
		if r.code != exitFailure || r.out != want {
			t.Errorf("with what is not repaired, dibs check --repair --json ends with %d and writes %q", r.code, r.out)
		}
		c.bySQL("update %sjob set attempt = 0")
		c.fails(exitUsage, "", []string{"check", "--repair", "--table", "t.yaml"}, "'dibs check' does not work on an adopted table", "dibs adopt check")
	})
}

// bySQL runs a statement behind the back of dibs; %s stands before the names of tables.
func (c *cli) bySQL(text string) {
	c.t.Helper()
	a := newApp(strings.NewReader(""), nil, nil)
	a.dbFlag = open.URL(c.db)
	db, err := a.sqlDB(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	prefix := "dibs."
	if strings.HasPrefix(c.db, "sqlite:") {
		prefix = "dibs_"
	}
	if _, err := db.ExecContext(c.t.Context(), fmt.Sprintf(text, prefix)); err != nil {
		c.t.Fatal(err)
	}
}
