package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// The output of each adopt command leads to the next: from a table to a mapping, to rows.
func TestAdoptFromTableToMapping(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		text := c.OK("adopt", "init", "tickets")
		c.HasInOrder(text, "# why: id: index ", "id: [ref]", "# NOT SURE: order:", "# why: unfinished: ", "claim:", "token: mark")
		file := c.Write("proposed.yaml", text)
		c.HasInOrder(c.OK("adopt", "check", file), "warning tickets, index: no index gives rows in the order of claims", "create index", "note tickets, safety: fenced by the token in mark")
		c.HasInOrder(c.OK("adopt", "try", file, "-n", "2"), "ID", "PAYLOAD", "<b>", "A-1", "nothing has changed")
		c.HasInOrder(c.OK("adopt", "sql", x.Mapping), "fenced by the token in mark", "create index", "-- == claim ==", "-- == locks ==", "A claim of 3 rows was tried")
		for _, verb := range []string{"ls", "requeue"} {
			c.Fails(cmdline.ExitUsage, "", []string{verb, "--table", x.Mapping, "--flow", "1"}, "the rows of an adopted table come after no others")
		}
		if got := c.OK("ls", "--table", x.Mapping, "--state", "running"); strings.Contains(got, "A-1") {
			t.Errorf("a row was left claimed:\n%s", got)
		}
	})
}

func TestAdoptJSON(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByStart)
		o := c.Row(c.OK("adopt", "init", "tickets", "--json"))
		if reasons, _ := o["reasons"].([]any); len(reasons) < 5 || !strings.Contains(o["mapping"].(string), "id: [ref]") {
			c.T.Errorf("init writes %v", o)
		}
		line, _, _ := strings.Cut(c.OK("adopt", "check", x.Mapping, "--json"), "\n")
		c.Has(c.Row(line), object{"queue": "tickets", "severity": "warning", "field": "index"})
		c.Has(c.Row(c.OK("adopt", "try", x.Mapping, "--json")), object{"key": `<b> & "c"`, "payload": `<b> & "c"`, "attempt": 1, "state": "running"})
		if o := c.Row(c.OK("adopt", "sql", x.Mapping, "--json")); !strings.Contains(o["sql"].(string), "-- == claim ==") {
			c.T.Errorf("sql writes %v", o)
		}
	})
}

func TestAdoptSaysWhatIsWrong(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		bad := c.Write("bad.yaml", strings.Replace(clitest.ByToken, "ref", "reference", 1))
		r := c.Run("", "adopt", "check", bad)
		if r.Code != cmdline.ExitFailure || !strings.HasPrefix(r.Out, `error tickets, id: table tickets has no column "reference"; it has ref, prio`) || r.Err != "" {
			c.T.Errorf("check of a bad mapping: %+v", r)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "try", bad}, "bad.yaml: id: table tickets has no column", "'dibs adopt check' tells all")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "sql", bad}, "bad.yaml: id: table tickets has no column")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "check", c.Write("odd.yaml", "tabel: x\n")}, "odd.yaml", "tabel")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "check", filepath.Join(c.T.TempDir(), "none.yaml")}, "none.yaml", "make one: dibs adopt init TABLE > ")
		c.Fails(cmdline.ExitUsage, "", []string{"work", "--table", "none.yaml", "--", "true"}, "make one: dibs adopt init TABLE > none.yaml")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "chekc", x.Mapping}, `unknown command "chekc"`)
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "init", "nothing"}, `there is no table "nothing"`, "in this database")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "try", x.Mapping, "-n", "0"}, "-n: must be 1 to 10000")
		r = c.Run("", "adopt", "check", x.Mapping, c.Write("second.yaml", strings.Replace(clitest.ByToken, "id: ref", "id: ref\nqueue: second", 1)))
		if r.Code != cmdline.ExitFailure || !strings.Contains(r.Out, "error second, where: 4 rows are unfinished for queue tickets, too") {
			c.T.Errorf("check of two queues of the same rows: %+v", r)
		}
		x.Exec("update tickets set status = 'done'")
		c.HasInOrder(c.OK("adopt", "try", x.Mapping), "No row is available now")
	})
}

// A wrong path must be an error, not a new file.
func TestAdoptMakesNoFile(t *testing.T) {
	c := onSQLite(t)
	c.Fails(cmdline.ExitUsage, "", []string{"adopt", "init", "tickets"}, "there is no database file")
	if _, err := os.Stat(strings.TrimPrefix(c.DB, "sqlite:")); err == nil {
		t.Error("there is a file now")
	}
}

func TestCompletionOffersTables(t *testing.T) {
	onEach(t, func(c *cli) {
		adoptTickets(c, clitest.ByToken)
		r := c.Run("", "__complete", "--db", c.DB, "adopt", "init", "tick")
		if r.Code != cmdline.ExitOK || !strings.HasPrefix(r.Out, "tickets\n:") {
			c.T.Errorf("completing gives %q", r.Out)
		}
	})
}

// A view is refused, and its table named. A misspelt name leads to the table.
func TestAdoptInitOfNoTable(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		x.Exec("create view open_tickets as select ref from tickets where status = 'new'")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "init", "open_tickets"}, "name the table that it reads, tickets")
		c.Fails(cmdline.ExitUsage, "", []string{"adopt", "init", "ticket"}, "did you mean tickets?")
	})
}
