//go:build unix

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Rows that the table refuses to have claimed stop nobody: the worker's log, stats and check name them.
func TestRefusedRowsAreNamedAndStopNobody(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		const refusal = "tries between 0 and most"
		x.Exec("create table strict (id integer primary key, mark text, done integer, tries integer not null default 0, most integer not null default 3, constraint few check (" + refusal + "))")
		for id := 1; id <= 20; id++ {
			x.Exec(fmt.Sprintf("insert into strict (id, tries) values (%d, %d)", id, map[bool]int{true: 3}[id == 1 || id == 4]))
		}
		file := c.Write("strict.yaml", "table: strict\nid: [id]\nunfinished: done is null\navailable: mark is null\nclaim: {token: mark, attempts: tries}\ncompleted: {set: {done: 1}}\n")
		r := c.Run("", "stats", "--table", file)
		c.HasInOrder(r.Err, "refuses a claim of 2 of the next 20 rows (1, 4)", "few", "passed over")
		c.HasInOrder(c.OK("adopt", "check", file), "warning strict, claim: ", "(1, 4)", "warning strict, max_attempts: attempts may pass what the table allows")
		w := c.Work("--table", file, "--", "true")
		c.awaitRows(x, "select count(*) from strict where done = 1", 18)
		w.Stop()
		c.HasInOrder(c.End(w), "refuses to have a row claimed", "key=1 ", "few")
	})
}

// awaitRows waits until a query counts that many.
func (c *cli) awaitRows(x *adopting, query string, want int) {
	c.T.Helper()
	for end := time.Now().Add(clitest.Patience); ; time.Sleep(20 * time.Millisecond) {
		var n int
		if err := x.SQL.QueryRow(query).Scan(&n); err != nil {
			c.T.Fatal(err)
		}
		if n == want {
			return
		}
		if time.Now().After(end) {
			c.T.Fatalf("%d rows, want %d", n, want)
		}
	}
}
