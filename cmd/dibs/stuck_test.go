package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// hears is a writer that calls then after the text was written to it.
type hears struct {
	bytes.Buffer
	text string
	then func()
}

func (h *hears) Write(p []byte) (int, error) {
	n, err := h.Buffer.Write(p)
	if then := h.then; then != nil && strings.Contains(h.String(), h.text) {
		h.then = nil
		then()
	}
	return n, err
}

// No claim takes rows that another program holds. Commands that wait for them report them.
func TestRowsThatAnotherProgramHasTakenAreTold(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByStatusBeside)
		x.Exec("update tickets set status = 'busy' where ref in ('17', 'd')")
		const told = "2 rows are in progress by the table's own columns, but dibs holds no lease on them"
		r := c.Run("", x.WithTable("ls")...)
		if r.Code != cmdline.ExitOK || !strings.Contains(r.Err, told) || !strings.Contains(r.Err, "put them back: update ") {
			c.T.Errorf("ls: exit code %d: %s", r.Code, r.Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		heard := &hears{text: told, then: func() { x.Exec("update tickets set status = 'done' where ref in ('17', 'd')") }}
		args := append([]string{"--db", c.DB}, x.WithTable("work", "--until-empty", "--", "true")...)
		if code := run(ctx, args, strings.NewReader(""), &bytes.Buffer{}, heard); code != cmdline.ExitOK || ctx.Err() != nil || heard.then != nil {
			c.T.Errorf("work: exit code %d, %v: %s", code, ctx.Err(), heard)
		}
		if got := x.Status(); strings.Contains(got, "new") || strings.Contains(got, "busy") {
			c.T.Errorf("left: %s", got)
		}
	})
}

// Where rows in progress hold all places of the groups, stats says why nothing is claimed.
func TestStatsSaysThatGroupsAreFull(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.TicketsHead+`
available: status = 'new'
claim: {set: {status: busy}}
side_table: true
group: {column: customer}
put_back: {set: {status: new}}
`)
		x.Exec("update tickets set status = 'busy' where ref in ('A-1', '17')")
		x.Exec("delete from tickets where ref = 'd'")
		r := c.Run("", x.WithTable("stats")...)
		c.HasInOrder(r.Err, "1 rows are due, and none can be claimed: they wait for their groups", `such as those of "ann" (limit 1)`, "dibs ls --table FILE --state running")
	})
}
