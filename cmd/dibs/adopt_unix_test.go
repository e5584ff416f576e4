//go:build unix

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/needs"
)

// Rows that the table refuses to have claimed stop nobody: the worker's log, stats and check name them.
func TestRefusedRowsAreNamedAndStopNobody(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		const refusal = "tries between 0 and most"
		x.exec("create table strict (id integer primary key, mark text, done integer, tries integer not null default 0, most integer not null default 3, constraint few check (" + refusal + "))")
		for id := 1; id <= 20; id++ {
			x.exec(fmt.Sprintf("insert into strict (id, tries) values (%d, %d)", id, map[bool]int{true: 3}[id == 1 || id == 4]))
		}
		file := c.write("strict.yaml", "table: strict\nid: [id]\nunfinished: done is null\navailable: mark is null\nclaim: {token: mark, attempts: tries}\ncompleted: {set: {done: 1}}\n")
		r := c.run("", "stats", "--table", file)
		c.hasInOrder(r.err, "refuses a claim of 2 of the next 20 rows (1, 4)", "few", "passed over")
		c.hasInOrder(c.ok("adopt", "check", file), "warning strict, claim: ", "(1, 4)", "warning strict, max_attempts: attempts may pass what the table allows")
		w := c.work("--table", file, "--", "true")
		c.awaitRows(x, "select count(*) from strict where done = 1", 18)
		w.stop()
		c.hasInOrder(c.end(w), "refuses to have a row claimed", "key=1 ", "few")
	})
}

// awaitRows waits until a query counts that many.
func (c *cli) awaitRows(x *adopting, query string, want int) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var n int
		if err := x.sql.QueryRow(query).Scan(&n); err != nil {
			c.t.Fatal(err)
		}
		if n == want {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%d rows, want %d", n, want)
		}
	}
}
