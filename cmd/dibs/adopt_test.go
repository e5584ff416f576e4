package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The output of each adopt command leads to the next: from a table to a mapping, to rows.
func TestAdoptFromTableToMapping(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		text := c.ok("adopt", "init", "tickets")
		c.hasInOrder(text, "# why: id: index ", "id: [ref]", "# NOT SURE: order:", "# why: unfinished: ", "claim:", "token: mark")
		file := c.write("proposed.yaml", text)
		c.hasInOrder(c.ok("adopt", "check", file), "warning tickets, index: no index gives rows in the order of claims", "create index", "note tickets, safety: fenced by the token in mark")
		c.hasInOrder(c.ok("adopt", "try", file, "-n", "2"), "ID", "PAYLOAD", "<b>", "A-1", "nothing has changed")
		c.hasInOrder(c.ok("adopt", "sql", x.mapping), "fenced by the token in mark", "create index", "-- == claim ==", "-- == locks ==", "A claim of 3 rows was tried")
		if got := c.ok("ls", "--table", x.mapping, "--state", "running"); strings.Contains(got, "A-1") {
			t.Errorf("a row was left claimed:\n%s", got)
		}
	})
}

func TestAdoptJSON(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byStart)
		o := c.row(c.ok("adopt", "init", "tickets", "--json"))
		if reasons, _ := o["reasons"].([]any); len(reasons) < 5 || !strings.Contains(o["mapping"].(string), "id: [ref]") {
			c.t.Errorf("init writes %v", o)
		}
		line, _, _ := strings.Cut(c.ok("adopt", "check", x.mapping, "--json"), "\n")
		c.has(c.row(line), object{"queue": "tickets", "severity": "warning", "field": "index"})
		c.has(c.row(c.ok("adopt", "try", x.mapping, "--json")), object{"key": `<b> & "c"`, "payload": `<b> & "c"`, "attempt": 1, "state": "running"})
		if o := c.row(c.ok("adopt", "sql", x.mapping, "--json")); !strings.Contains(o["sql"].(string), "-- == claim ==") {
			c.t.Errorf("sql writes %v", o)
		}
	})
}

func TestAdoptSaysWhatIsWrong(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		bad := c.write("bad.yaml", strings.Replace(byToken, "ref", "reference", 1))
		r := c.run("", "adopt", "check", bad)
		if r.code != exitFailure || !strings.HasPrefix(r.out, `error tickets, id: table tickets has no column "reference"; it has ref, prio`) || r.err != "" {
			c.t.Errorf("check of a bad mapping: %+v", r)
		}
		c.fails(exitUsage, "", []string{"adopt", "try", bad}, "bad.yaml: id: table tickets has no column", "'dibs adopt check' tells all")
		c.fails(exitUsage, "", []string{"adopt", "sql", bad}, "bad.yaml: id: table tickets has no column")
		c.fails(exitUsage, "", []string{"adopt", "check", c.write("odd.yaml", "tabel: x\n")}, "odd.yaml", "tabel")
		c.fails(exitUsage, "", []string{"adopt", "check", filepath.Join(c.t.TempDir(), "none.yaml")}, "none.yaml", "make one: dibs adopt init TABLE > ")
		c.fails(exitUsage, "", []string{"work", "--table", "none.yaml", "--", "true"}, "make one: dibs adopt init TABLE > none.yaml")
		c.fails(exitUsage, "", []string{"adopt", "chekc", x.mapping}, `unknown command "chekc"`)
		c.fails(exitUsage, "", []string{"adopt", "init", "nothing"}, `there is no table "nothing"`, "in this database")
		c.fails(exitUsage, "", []string{"adopt", "try", x.mapping, "-n", "0"}, "-n: must be 1 to 10000")
		r = c.run("", "adopt", "check", x.mapping, c.write("second.yaml", strings.Replace(byToken, "id: ref", "id: ref\nqueue: second", 1)))
		if r.code != exitFailure || !strings.Contains(r.out, "error second, where: 4 rows are unfinished for queue tickets, too") {
			c.t.Errorf("check of two queues of the same rows: %+v", r)
		}
		x.exec("update tickets set status = 'done'")
		c.hasInOrder(c.ok("adopt", "try", x.mapping), "No row is available now")
	})
}

// A wrong path must be an error, not a new file.
func TestAdoptMakesNoFile(t *testing.T) {
	c := onSQLite(t)
	c.fails(exitUsage, "", []string{"adopt", "init", "tickets"}, "there is no database file")
	if _, err := os.Stat(strings.TrimPrefix(c.db, "sqlite:")); err == nil {
		t.Error("there is a file now")
	}
}

func TestCompletionOffersTables(t *testing.T) {
	onEach(t, func(c *cli) {
		adoptTickets(c, byToken)
		r := c.run("", "__complete", "--db", c.db, "adopt", "init", "tick")
		if r.code != exitOK || !strings.HasPrefix(r.out, "tickets\n:") {
			c.t.Errorf("completing gives %q", r.out)
		}
	})
}

// A view is refused, and its table named. A misspelt name leads to the table.
func TestAdoptInitOfNoTable(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		x.exec("create view open_tickets as select ref from tickets where status = 'new'")
		c.fails(exitUsage, "", []string{"adopt", "init", "open_tickets"}, "name the table that it reads, tickets")
		c.fails(exitUsage, "", []string{"adopt", "init", "ticket"}, "did you mean tickets?")
	})
}
