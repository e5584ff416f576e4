package dibs_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/needs"
)

// TestTheGuideToAdoptingATableWorks does what docs/adopt.md says, block after block, in an
// empty folder: its SQL makes the table, its YAML becomes the mapping, its shell is run, and
// its Go is copied from an example that has a test of its own.
func TestTheGuideToAdoptingATableWorks(t *testing.T) {
	t.Parallel()
	needs.Long(t)
	dir, bin := t.TempDir(), filepath.Dir(needs.Build(t, "./cmd/dibs"))
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	shell := "export PATH=" + bin + ":$PATH DIBS_DB=sqlite:shop.db; "
	var said strings.Builder
	for _, m := range block.FindAllStringSubmatch(read(t, "docs/adopt.md"), -1) {
		switch language, text := m[1], m[2]; language {
		case "sql":
			if _, err := db.Exec(text); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		case "yaml":
			if _, err := mapping.Read(filepath.Join(dir, "orders.yaml")); err != nil {
				t.Errorf("what was proposed: %v", err)
			}
			write(t, filepath.Join(dir, "orders.yaml"), text)
		case "sh":
			said.WriteString(command(t, dir, "sh", "-euc", shell+text))
		case "go":
			if !strings.Contains(unindented(read(t, "adopt/example_test.go")), unindented(text)) {
				t.Errorf("no example has this code:\n%s", text)
			}
		default:
			t.Errorf("a block of language %q, which no test looks at", language)
		}
	}
	for _, want := range []string{"every promise was kept", "nothing was paid for order 4", "waiting 0  running 0", `{"finished":1}`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it never said %q:\n%s", want, said.String())
		}
	}
	last, err := mapping.Read(filepath.Join(dir, "orders.yaml"))
	if err != nil || last.Table != "mails" {
		t.Fatalf("the second mapping is of %q, %v", last.Table, err)
	}
	found, err := advice.Check(t.Context(), db, last)
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Severity == advice.SeverityError {
			t.Errorf("the second mapping: %+v", f)
		}
	}
	var shipped, failed int
	err = db.QueryRow(`select count(*) filter (where status = 'shipped'), count(*) filter (where status = 'failed' and problem like '%nothing was paid%') from orders`).Scan(&shipped, &failed)
	if err != nil || shipped != 6 || failed != 1 {
		t.Errorf("%d orders are shipped and %d have failed, %v", shipped, failed, err)
	}
}
