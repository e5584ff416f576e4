package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

const byStatusBeside = ticketsHead + `
available: status = 'new'
claim: {set: {status: busy}}
side_table: true
put_back: {set: {status: new}}
`

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
		x := adoptTickets(c, byStatusBeside)
		x.exec("update tickets set status = 'busy' where ref in ('17', 'd')")
		const told = "2 rows are in progress by the table's own columns, but dibs holds no lease on them"
		r := c.run("", x.withTable("ls")...)
		if r.code != exitOK || !strings.Contains(r.err, told) || !strings.Contains(r.err, "put them back: update ") {
			c.t.Errorf("ls: exit code %d: %s", r.code, r.err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		heard := &hears{text: told, then: func() { x.exec("update tickets set status = 'done' where ref in ('17', 'd')") }}
		args := append([]string{"--db", c.db}, x.withTable("work", "--until-empty", "--", "true")...)
		if code := run(ctx, args, strings.NewReader(""), &bytes.Buffer{}, heard); code != exitOK || ctx.Err() != nil || heard.then != nil {
			c.t.Errorf("work: exit code %d, %v: %s", code, ctx.Err(), heard)
		}
		if got := x.status(); strings.Contains(got, "new") || strings.Contains(got, "busy") {
			c.t.Errorf("left: %s", got)
		}
	})
}

// Where rows in progress hold all places of the groups, stats says why nothing is claimed.
func TestStatsSaysThatGroupsAreFull(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, ticketsHead+`
available: status = 'new'
claim: {set: {status: busy}}
side_table: true
group: {column: customer}
put_back: {set: {status: new}}
`)
		x.exec("update tickets set status = 'busy' where ref in ('A-1', '17')")
		x.exec("delete from tickets where ref = 'd'")
		r := c.run("", x.withTable("stats")...)
		c.hasInOrder(r.err, "1 rows are due, and none can be claimed: they wait for their groups", `such as those of "ann" (limit 1)`, "dibs ls --table FILE --state running")
	})
}
