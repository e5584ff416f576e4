package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/golden"
)

// A script claims in one process and finishes in others, by key or by lines of JSON.
func TestAdoptedRowsAreClaimedAndFinishedByScripts(t *testing.T) {
	for name, mapping := range map[string]string{"token": clitest.ByToken, "start": clitest.ByStart, "side table": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				rows := c.Rows(c.OK(x.WithTable("claim", "-n", "10", "--worker", "me")...))
				want := []string{`<b> & "c"`, "17", "d"} // A-1 is in ann's group, which runs one at a time
				if name == "start" {
					want = []string{`<b> & "c"`, "A-1", "17", "d"}
				}
				for i, row := range rows {
					c.Has(row, object{"key": want[i], "payload": want[i], "state": "running", "attempt": 1})
				}
				if len(rows) != len(want) {
					t.Fatalf("claimed %v", rows)
				}
				key, token := rows[0]["key"].(string), rows[0]["token"].(string)
				if name == "start" {
					c.Fails(cmdline.ExitUsage, "", x.WithTable("extend", key, token), "only who made a claim", "side_table", "docs/adopt.md")
				} else {
					c.Has(c.Row(c.OK(x.WithTable("extend", key, token, "--lease", "20s")...)), object{"lost": nil, "keys": nil})
				}
				c.Has(c.Row(c.OK(x.WithTable("show", key, "--json")...)), object{"key": key, "state": "running"})
				c.Has(c.Row(c.OK(x.WithTable("finish", key, token, "--completed", "--result", `"fine"`)...)), object{"finished": 1})
				again := c.Run("", x.WithTable("finish", key, token, "--completed")...)
				c.Refused(again, cmdline.ExitLeaseLost, nil, `row "`, "another program")
				c.Has(c.Row(again.Out), object{"finished": 0, "keys": object{fmt.Sprint(jsonNumber(again.Out)): key}})
				var lines strings.Builder
				for _, row := range rows[1:] {
					delete(row, "id") // jq, for example, would round it
					row["ending"] = "completed"
					text, _ := json.Marshal(row) // the row was decoded from JSON, so it can be encoded
					lines.Write(append(text, '\n'))
				}
				c.Has(c.Row(c.Feed(lines.String(), x.WithTable("finish")...)), object{"finished": len(rows) - 1})
				c.Fails(cmdline.ExitUsage, lines.String(), []string{"finish"}, "stdin:1", "--table")
				if got := x.Status(); strings.Count(got, "=done") != len(rows) {
					t.Error(got)
				}
			})
		})
	}
}

func jsonNumber(text string) json.Number {
	var sum struct{ Refused []json.Number }
	if json.Unmarshal([]byte(text), &sum) != nil || len(sum.Refused) == 0 {
		return ""
	}
	return sum.Refused[0]
}

// Programs run for each row, in order; one finishes its row itself.
func TestAdoptedRowsAreWorked(t *testing.T) {
	t.Parallel()
	for name, mapping := range map[string]string{"token": clitest.ByToken, "start": clitest.ByStart, "side table": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				script := `read -r row; case $row in A-1) echo broken >&2; exit 100;; d) DIBS_TEST_AS_COMMAND=1 "$DIBS_TEST_SELF" finish "$DIBS_JOB_KEY" "$DIBS_TOKEN" --completed >&2 && exit 102;; esac; echo "$DIBS_JOB_KEY"`
				args := []string{"work", "--text", "-c", "1", "--", "sh", "-c", script}
				if name == "start" { // the program gets no token, and this mapping has no dead state
					args = []string{"work", "--text", "--until-empty", "--", "sh", "-c", `test -z "$DIBS_TOKEN" && echo "$DIBS_JOB_KEY"`}
				} else {
					args = append([]string{"work", "--until-empty"}, args[1:]...)
				}
				args[0] = "--verbose"
				r := c.Run("", x.WithTable(append([]string{"work"}, args...)...)...)
				if r.Code != cmdline.ExitOK {
					t.Fatalf("exit code %d: %s", r.Code, r.Err)
				}
				if got := strings.Count(r.Err, " key=17 "); got != 2 || strings.Contains(r.Err, "waited=") {
					t.Errorf("the log names the row %d times, when it starts and ends, and tells how long it waited, which nobody knows:\n%s", got, r.Err)
				}
				if limited := name != "start"; strings.Contains(r.Err, " max_attempts=3 ") != limited || strings.Contains(r.Err, " max_attempts=2147483647") {
					t.Errorf("the log does not tell how many attempts there are, where the mapping says it:\n%s", r.Err)
				}
				want := map[string]string{
					"token":      `<b> & "c"=done A-1=failed 17=done d=done`,
					"start":      `<b> & "c"=done A-1=done 17=done d=done`,
					"side table": `<b> & "c"=done A-1=new 17=done d=done`,
				}[name]
				if got := x.Status(); got != want {
					t.Errorf("got %s, want %s\n%s", got, want, r.Err)
				}
				var result string
				if err := x.SQL.QueryRow("select result from tickets where ref = '17'").Scan(&result); err != nil || strings.Trim(result, `"`) != "17" {
					t.Errorf("result %q, %v", result, err)
				}
				if name == "side table" {
					c.Has(c.Row(c.OK(x.WithTable("stats", "--json")...)), object{"waiting": 0, "running": 0, "dead": 1, "completed": nil, "throughput": nil})
					if got := c.OK(x.WithTable("ls", "--state", "dead")...); !strings.Contains(got, "A-1") || !strings.Contains(got, "broken") {
						t.Error(got)
					}
				}
			})
		})
	}
}

// Commands show the values that the table has, and leave out those it has not.
func TestAdoptedTablesAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, mapping := range map[string]string{"token": clitest.ByToken, "start": clitest.ByStart, "side": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				rows := c.Rows(c.OK(x.WithTable("claim", "-n", "2", "--worker", "me")...))
				if name == "side" {
					c.OK(x.WithTable("finish", rows[1]["key"].(string), rows[1]["token"].(string), "--dead", "--error", "no such customer")...)
				}
				var text strings.Builder
				for _, args := range [][]string{{"ls"}, {"stats"}, {"top", "--once"}} {
					fmt.Fprintf(&text, "$ dibs %s --table mapping.yaml\n%s\n", strings.Join(args, " "), c.OK(x.WithTable(args...)...))
				}
				golden.Match(t, "adopted/"+name+".txt", clitest.Timeless(text.String()))
				for _, args := range [][]string{{"ls", "--json", "--all"}, {"stats", "--json"}, {"top", "--once", "--json"}} {
					if got := c.OK(x.WithTable(args...)...); strings.Contains(got, "0001-01-01") || strings.Contains(got, "completed") {
						t.Errorf("dibs %v tells what it cannot know: %s", args, got)
					}
				}
			})
		})
	}
}

func TestWhatAnAdoptedTableCannotDo(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		c.Fails(cmdline.ExitUsage, "", x.WithTable("ls", "--state", "completed"), "completed rows with SQL", "docs/adopt.md")
		for _, args := range [][]string{{"ls", "other"}, {"stats", "other"}, {"claim", "other"}, {"work", "other", "--", "true"}, {"work", "-q", "tickets", "-q", "other", "--", "true"}} {
			c.Fails(cmdline.ExitNotFound, "", x.WithTable(args...), `"other"`, "tickets")
		}
		c.Fails(cmdline.ExitUsage, "", x.WithTable("ls", "--schema", "x"), "SCHEMA.NAME")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--table", ""}, "empty")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--table", filepath.Join(t.TempDir(), "none.yaml")}, "none.yaml")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--table", c.Write("bad.yaml", clitest.ByToken+"nonsense: 1\n")}, "bad.yaml", "nonsense")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--table", c.Write("bad.yaml", strings.Replace(clitest.ByToken, "id: ref", "id: reff", 1))}, "bad.yaml: id", "reff", "ref")
		for verb, do := range map[string]string{
			"enqueue": "insert rows with SQL", "edit": "change rows with SQL", "cancel": "with SQL", "prune": "delete rows with SQL",
			"pause": "stop its workers", "queue": "in the mapping", "check": "adopt check", "locks": "",
		} {
			c.Fails(cmdline.ExitUsage, "", x.WithTable(verb), "'dibs "+verb+"' does not work on an adopted table", do, "docs/adopt.md")
		}
		c.Fails(cmdline.ExitUsage, "", x.WithTable("enqueue", "--tables", "x"), "unknown flag: --tables", "dibs enqueue --help")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--stat", "dead"}, "unknown flag: --stat; did you mean --state?")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--limt", "2"}, "unknown flag: --limt; did you mean --limit?")
		c.Fails(cmdline.ExitUsage, "", []string{"stats", "--queue", "demo"}, "unknown flag: --queue", "the queue is an argument: dibs stats [QUEUE]")
		c.Fails(cmdline.ExitUsage, "", x.WithTable("requeue", "17"), "requeue", "with SQL", "docs/adopt.md")
		lockOnly := c.Write("lock.yaml", clitest.TicketsHead)
		c.Fails(cmdline.ExitUsage, "", []string{"claim", "--table", lockOnly}, "claim", "side_table")
		if r := c.Run("", "work", "--table", lockOnly, "--", "true"); r.Code != cmdline.ExitUsage || !strings.Contains(r.Err, "dibs: claim: the mapping names no column") {
			t.Errorf("exit code %d: %s", r.Code, r.Err)
		}
		c.Fails(cmdline.ExitNotFound, "", x.WithTable("show", "6465633759962072763"), "no such job", "the row's own id (ref)", "dibs ls --table "+x.Mapping)
		for _, args := range [][]string{{"extend"}, {"finish", "--completed"}} {
			r := c.Run("", x.WithTable(append(args, "6465633759962072763", strings.Repeat("1f", 16))...)...)
			c.Refused(r, cmdline.ExitLeaseLost, args, "6465633759962072763", "the row's own id (ref)")
		}
	})
}

func TestTheMappingIsFoundInTheEnvironment(t *testing.T) {
	c := newCLI(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
	c.OK("migrate")
	x := adoptTickets(c, clitest.ByToken)
	t.Setenv("DIBS_TABLE", x.Mapping)
	if got := c.OK("stats"); !strings.HasPrefix(got, "QUEUE    WAITING") || !strings.Contains(got, "tickets") {
		t.Error(got)
	}
	if got := c.OK("queue"); strings.Contains(got, "tickets") {
		t.Errorf("a command for dibs' own queues heeds it: %s", got)
	}
	c.OK("enqueue", "q", "1")
	for _, args := range [][]string{{"cancel", "1"}, {"edit", "1", "--priority", "1"}, {"prune", "--older-than", "0s"}} {
		c.Fails(cmdline.ExitUsage, "", args, "DIBS_TABLE", "adopted table", "unset DIBS_TABLE")
	}
	c.DB = "sqlite:" + filepath.Join(t.TempDir(), "none.db")
	c.Fails(cmdline.ExitUsage, "", []string{"ls"}, "no database file", "--db")
	if _, err := os.Stat(strings.TrimPrefix(c.DB, "sqlite:")); err == nil {
		t.Error("it made a file")
	}
}

// Without --table, an error suggests it, and dibs creates no table in another program's file.
func TestWithoutTheMappingNothingIsMadeInAnothersFile(t *testing.T) {
	t.Parallel()
	c := newCLI(t, "sqlite:"+filepath.Join(t.TempDir(), "shop.db"))
	file, err := os.Create(strings.TrimPrefix(c.DB, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	x := adoptTickets(c, clitest.ByToken)
	for _, args := range [][]string{
		{"stats"},
		{"stats", "tickets"},
		{"ls"},
		{"show", "17"},
		{"top", "--once"},
		{"queue"},
		{"queue", "tickets"},
		{"check"},
		{"locks"},
		{"pause", "tickets"},
		{"resume", "tickets"},
		{"requeue", "17"},
		{"cancel", "17"},
		{"edit", "17", "--priority", "1"},
		{"prune", "--older-than", "1h"},
		{"claim", "tickets"},
		{"finish", "17", strings.Repeat("1f", 16), "--completed"},
		{"extend", "17", strings.Repeat("1f", 16)},
	} {
		c.Fails(cmdline.ExitSchema, "", args, "there are no tables of dibs in", "shop.db", "dibs migrate", "--table MAPPING")
	}
	for _, args := range [][]string{{"stats"}, {"ls"}, {"claim"}, {"show"}, {"work"}} {
		given := append(args, x.Mapping)
		if args[0] == "work" {
			given = append(given, "--", "true")
		}
		c.Fails(cmdline.ExitUsage, "", given, "did you mean --table "+x.Mapping+"?")
	}
	var mode string
	if err := x.SQL.QueryRow("pragma journal_mode").Scan(&mode); err != nil || mode != "delete" {
		t.Errorf("the file's journal is %q, %v", mode, err)
	}
	if n := x.count("select count(*) from sqlite_schema where type = 'table'"); n != 1 {
		t.Errorf("the file holds %d tables", n)
	}
	for _, args := range [][]string{{"enqueue", "emails"}, {"work", "emails", "--until-empty", "--", "true"}} {
		c.Fails(cmdline.ExitSchema, "", args, "shop.db", "no tables of dibs", "dibs migrate")
	}
	c.OK("migrate") // makes it dibs' file, too
	c.OK("enqueue", "emails")
	c.Fails(cmdline.ExitNotFound, "", []string{"stats", "orders.yaml"}, "orders.yaml", "did you mean --table orders.yaml?", "emails")
}
