package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// Rows that are dead only in the side table can be requeued by id or all together, and get all
// their attempts again.
func TestDeadRowsOfASideTableAreRequeued(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.BySide)
		kill := func() {
			for _, row := range c.Rows(c.OK(x.WithTable("claim", "-n", "4", "--worker", "me")...)) {
				c.OK(x.WithTable("finish", row["key"].(string), row["token"].(string), "--dead", "--error", "no")...)
			}
		}
		kill()
		if got := c.OK(x.WithTable("requeue", "--state", "dead", "--all", "--dry-run")...); !strings.Contains(got, "would requeue 3 jobs") {
			t.Error(got)
		}
		if got := c.OK(x.WithTable("requeue", "17")...); !strings.Contains(got, "requeued 1 job") {
			t.Error(got)
		}
		c.Fails(cmdline.ExitNotFound, "", x.WithTable("requeue", "17", "nothing"), "2 of 2 jobs were not requeued")
		rows := c.Rows(c.OK(x.WithTable("claim", "-n", "2", "--worker", "me")...))
		if len(rows) != 2 || rows[1]["key"] != "17" || fmt.Sprint(rows[1]["attempt"], rows[1]["excused"]) != "2 1" {
			t.Errorf("claimed %v", rows)
		}
		c.Fails(cmdline.ExitNotFound, "", x.WithTable("requeue", "17"), "was not requeued") // the row is running
		if got := c.OK(x.WithTable("requeue", "--state", "dead", "--all")...); !strings.Contains(got, "requeued 2 jobs") {
			t.Error(got)
		}
		if got := c.OK(x.WithTable("ls", "--state", "dead")...); !strings.Contains(got, "no such jobs") {
			t.Error(got)
		}
	})
}
