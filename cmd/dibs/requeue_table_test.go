package main

import (
	"fmt"
	"strings"
	"testing"
)

// Rows that are dead only in the side table can be requeued by id or all together, and get all
// their attempts again.
func TestDeadRowsOfASideTableAreRequeued(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, bySide)
		kill := func() {
			for _, row := range c.rows(c.ok(x.withTable("claim", "-n", "4", "--worker", "me")...)) {
				c.ok(x.withTable("finish", row["key"].(string), row["token"].(string), "--dead", "--error", "no")...)
			}
		}
		kill()
		if got := c.ok(x.withTable("requeue", "--state", "dead", "--all", "--dry-run")...); !strings.Contains(got, "would requeue 3 jobs") {
			t.Error(got)
		}
		if got := c.ok(x.withTable("requeue", "17")...); !strings.Contains(got, "requeued 1 job") {
			t.Error(got)
		}
		c.fails(exitNotFound, "", x.withTable("requeue", "17", "nothing"), "2 of 2 jobs were not requeued")
		rows := c.rows(c.ok(x.withTable("claim", "-n", "2", "--worker", "me")...))
		if len(rows) != 2 || rows[1]["key"] != "17" || fmt.Sprint(rows[1]["attempt"], rows[1]["excused"]) != "2 1" {
			t.Errorf("claimed %v", rows)
		}
		c.fails(exitNotFound, "", x.withTable("requeue", "17"), "was not requeued") // the row is running
		if got := c.ok(x.withTable("requeue", "--state", "dead", "--all")...); !strings.Contains(got, "requeued 2 jobs") {
			t.Error(got)
		}
		if got := c.ok(x.withTable("ls", "--state", "dead")...); !strings.Contains(got, "no such jobs") {
			t.Error(got)
		}
	})
}
