package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Rows of other programs contain whatever their users have typed.
func TestAdoptedRowsReachNoTerminalAsTheyAre(t *testing.T) {
	needs.Long(t)
	for name, mapping := range map[string]string{"token": clitest.ByToken, "side": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			c := onSQLite(t)
			if err := os.WriteFile(strings.TrimPrefix(c.DB, "sqlite:"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			x := adoptTickets(c, mapping)
			if _, err := x.SQL.Exec("update tickets set ref = ref || ?1, customer = customer || ?1, error = ?1, result = ?1, status = case prio when 4 then ?1 else status end", clitest.EvilName); err != nil {
				t.Fatal(err)
			}
			h := &hostileDB{cli: c, t: t}
			for _, args := range [][]string{
				{"ls"},
				{"stats"},
				{"top", "--once"},
				{"show", "A-1" + clitest.EvilName},
				{"show", "17" + clitest.EvilName},
				{"show", clitest.EvilName},
				{"claim", "--lease", "2s"}, // "work" below waits for their end
				{"ls", "--state", "running"},
				{"finish", "A-1" + clitest.EvilName, strings.Repeat("a", 32), "--completed"},
				{"ls", clitest.EvilName},
				{"extend", "A-1" + clitest.EvilName, strings.Repeat("a", 32)},
				{"work", "--until-empty", "-v", "--", "sh", "-c", "cat; cat >&2; exit 100"},
				{"ls", "--state", "dead"},
				{"top", "--once"},
			} {
				for _, terminal := range []bool{true, false} {
					h.prints(terminal, false, x.WithTable(args...))
					h.prints(terminal, true, x.WithTable(args...))
				}
			}
			if out := h.screen(true, "", x.WithTable("top", "--once")...); !strings.Contains(out.Out, "RUNNING") && !strings.Contains(out.Out, "running") {
				t.Errorf("top shows %s%s", out.Out, out.Err)
			}
			h.adoption(x.Mapping, "tickets")
		})
	}
}

// adoption runs the commands for mappings.
func (h *hostileDB) adoption(mapping, table string) {
	for _, args := range [][]string{{"init", table}, {"check", mapping}, {"try", mapping, "-n", "5"}, {"sql", mapping}, {"init", "nosuch" + clitest.EvilName}} {
		for _, terminal := range []bool{true, false} {
			h.prints(terminal, false, append([]string{"adopt"}, args...))
			h.prints(terminal, true, append([]string{"adopt"}, args...))
		}
	}
}

// Names of tables and columns, and texts of mappings, are foreign text too.
func TestAdoptedNamesReachNoTerminalAsTheyAre(t *testing.T) {
	c := onSQLite(t)
	if err := os.WriteFile(strings.TrimPrefix(c.DB, "sqlite:"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x := adoptTickets(c, clitest.ByToken)
	name := "t" + clitest.EvilText
	for _, text := range []string{
		`create table "` + name + `" (id integer primary key, "status` + clitest.EvilName + `" text, status text, "` + clitest.EvilText + `" text)`,
		`insert into "` + name + `" (status, "status` + clitest.EvilName + `") values ('new` + clitest.EvilName + `', 'done'), ('busy', 'x')`,
	} {
		if _, err := x.SQL.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "m.yaml")
	h := &hostileDB{cli: c, t: t}
	for _, mapping := range []string{
		"table: \"t\\u009b31m\\u202e\"\nid: id\n",
		"table: tickets\nid: \"ref\\e[31m\\u009b\"\nqueue: \"q\\u202e\\e]0;x\\a\"\n",
		strings.Replace(clitest.ByToken, "status = 'new'", "\"status = 'new\\e[45m\\u009b31m\\u202e'\"", 1),
		clitest.ByToken + "queue: \"q\\u202e\\e]0;x\\a\\ndibs: fake\"\n",
		"\x1b[31m: " + clitest.EvilText, "a: \u009b\n  b: c: d\n", clitest.EvilName,
	} {
		if err := os.WriteFile(file, []byte(mapping), 0o600); err != nil {
			t.Fatal(err)
		}
		h.adoption(file, name)
		for _, verb := range []string{"ls", "stats", "claim"} {
			h.prints(true, false, []string{verb, "--table", file})
			h.prints(false, true, []string{verb, "--table", file})
		}
	}
	h.prints(false, false, []string{"__complete", "adopt", "init", "t"})
}

// The proposal for a table with hostile names is valid: it quotes the names correctly, and the
// name of the queue is allowed.
func TestAProposalForHostileNamesFits(t *testing.T) {
	for name, evil := range map[string]string{"controls": clitest.EvilControls, "text": clitest.EvilText, "beyond 16 bits": "\U000e0001"} {
		t.Run(name, func(t *testing.T) {
			c := onSQLite(t)
			if err := os.WriteFile(strings.TrimPrefix(c.DB, "sqlite:"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			x := adoptTickets(c, clitest.ByToken)
			for _, text := range []string{
				`create table "t_` + evil + `" (id integer primary key, "status` + evil + `" text, "locked_by ` + evil + `" text, locked_at integer, error text)`,
				`insert into "t_` + evil + `" ("status` + evil + `") values ('new'), ('done'), ('new')`,
			} {
				if _, err := x.SQL.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			proposal := c.OK("adopt", "init", "t_"+evil)
			file := c.Write("m.yaml", proposal)
			got := c.Run("", "adopt", "check", file).Out
			if strings.Contains(got, "error ") || !strings.Contains(got, "fenced by the exact values of locked_by ") {
				t.Errorf("%s\nis told:\n%s", proposal, got)
			}
		})
	}
}
