package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/open"
)

// adopting is a cli on a database with another program's table, and a mapping for it.
type adopting struct {
	*cli
	mapping string
	sql     *sql.DB
}

const tickets = `
create table tickets (
    ref varchar(40) primary key, prio int not null, customer text, status text not null default 'new',
    worker text, started bigint, until timestamp, mark varchar(36), tries int not null default 0, nb timestamp, error text, result text
);
insert into tickets (ref, prio, customer) values ('A-1', 2, 'ann'), ('<b> & "c"', 1, 'ann'), ('17', 3, 'bob'), ('d', 4, null);`

// Mappings with the three ways to fence a claim.
const (
	ticketsHead = `
table: tickets
id: ref
order: prio
payload: {columns: ref}
unfinished: status in ('new', 'busy')
completed: {set: {status: done, result: $result}}
lease: 30s
`
	byToken = ticketsHead + `
available: status = 'new'
not_before: nb
group: {column: customer}
claim: {token: mark, locked_by: worker, started_at: started, timeout: until, attempts: tries, set: {status: busy}}
max_attempts: 3
dead: {set: {status: failed, error: $error}}
put_back: {set: {status: new}}
`
	byStart = ticketsHead + `
available: status = 'new'
claim: {started_at: started, set: {status: busy}}
times: unix_ms
put_back: {set: {status: new}}
`
	bySide = ticketsHead + `
side_table: true
group: {column: customer}
max_attempts: 3
backoff: {base: 1h, max: 1h, factor: 1}
`
)

// adoptTickets creates the table and the mapping.
func adoptTickets(c *cli, mapping string) *adopting {
	c.t.Helper()
	a := newApp(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	a.dbFlag = open.URL(c.db)
	db, err := a.sqlDB(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = db.Close() })
	x := &adopting{cli: c, mapping: c.write("mapping.yaml", mapping), sql: db}
	x.exec(tickets)
	return x
}

func (x *adopting) exec(text string) {
	x.t.Helper()
	for _, statement := range strings.Split(text, ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := x.sql.Exec(statement); err != nil {
			x.t.Fatal(err)
		}
	}
}

// withTable adds the flag --table to arguments.
func (x *adopting) withTable(args ...string) []string {
	if i := len(args); args[0] == "work" {
		for i = range args {
			if args[i] == "--" {
				break
			}
		}
		return append(append(append([]string{}, args[:i]...), "--table", x.mapping), args[i:]...)
	}
	return append(args, "--table", x.mapping)
}

// status lists the rows as ref=status.
func (x *adopting) status() string {
	x.t.Helper()
	rows, err := x.sql.Query("select ref, status from tickets order by prio")
	if err != nil {
		x.t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var ref, status string
		if err := rows.Scan(&ref, &status); err != nil {
			x.t.Fatal(err)
		}
		all = append(all, ref+"="+status)
	}
	return strings.Join(all, " ")
}

// A script claims in one process and finishes in others, by key or by lines of JSON.
func TestAdoptedRowsAreClaimedAndFinishedByScripts(t *testing.T) {
	for name, mapping := range map[string]string{"token": byToken, "start": byStart, "side table": bySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				rows := c.rows(c.ok(x.withTable("claim", "-n", "10", "--worker", "me")...))
				want := []string{`<b> & "c"`, "17", "d"} // A-1 is in ann's group, which runs one at a time
				if name == "start" {
					want = []string{`<b> & "c"`, "A-1", "17", "d"}
				}
				for i, row := range rows {
					c.has(row, object{"key": want[i], "payload": want[i], "state": "running", "attempt": 1})
				}
				if len(rows) != len(want) {
					t.Fatalf("claimed %v", rows)
				}
				key, token := rows[0]["key"].(string), rows[0]["token"].(string)
				if name == "start" {
					c.fails(exitUsage, "", x.withTable("extend", key, token), "only who made a claim", "side_table", "docs/adopt.md")
				} else {
					c.has(c.row(c.ok(x.withTable("extend", key, token, "--lease", "20s")...)), object{"lost": nil, "keys": nil})
				}
				c.has(c.row(c.ok(x.withTable("show", key, "--json")...)), object{"key": key, "state": "running"})
				c.has(c.row(c.ok(x.withTable("finish", key, token, "--completed", "--result", `"fine"`)...)), object{"finished": 1})
				again := c.run("", x.withTable("finish", key, token, "--completed")...)
				c.refused(again, exitLeaseLost, nil, `row "`, "another program")
				c.has(c.row(again.out), object{"finished": 0, "keys": object{fmt.Sprint(jsonNumber(again.out)): key}})
				var lines strings.Builder
				for _, row := range rows[1:] {
					delete(row, "id") // jq, for example, would round it
					row["ending"] = "completed"
					text, _ := json.Marshal(row) // the row was decoded from JSON, so it can be encoded
					lines.Write(append(text, '\n'))
				}
				c.has(c.row(c.feed(lines.String(), x.withTable("finish")...)), object{"finished": len(rows) - 1})
				c.fails(exitUsage, lines.String(), []string{"finish"}, "stdin:1", "--table")
				if got := x.status(); strings.Count(got, "=done") != len(rows) {
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
	for name, mapping := range map[string]string{"token": byToken, "start": byStart, "side table": bySide} {
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
				r := c.run("", x.withTable(append([]string{"work"}, args...)...)...)
				if r.code != exitOK {
					t.Fatalf("exit code %d: %s", r.code, r.err)
				}
				if got := strings.Count(r.err, " key=17 "); got != 2 || strings.Contains(r.err, "waited=") {
					t.Errorf("the log names the row %d times, when it starts and ends, and tells how long it waited, which nobody knows:\n%s", got, r.err)
				}
				if limited := name != "start"; strings.Contains(r.err, " max_attempts=3 ") != limited || strings.Contains(r.err, " max_attempts=2147483647") {
					t.Errorf("the log does not tell how many attempts there are, where the mapping says it:\n%s", r.err)
				}
				want := map[string]string{
					"token":      `<b> & "c"=done A-1=failed 17=done d=done`,
					"start":      `<b> & "c"=done A-1=done 17=done d=done`,
					"side table": `<b> & "c"=done A-1=new 17=done d=done`,
				}[name]
				if got := x.status(); got != want {
					t.Errorf("got %s, want %s\n%s", got, want, r.err)
				}
				var result string
				if err := x.sql.QueryRow("select result from tickets where ref = '17'").Scan(&result); err != nil || strings.Trim(result, `"`) != "17" {
					t.Errorf("result %q, %v", result, err)
				}
				if name == "side table" {
					c.has(c.row(c.ok(x.withTable("stats", "--json")...)), object{"waiting": 0, "running": 0, "dead": 1, "completed": nil, "throughput": nil})
					if got := c.ok(x.withTable("ls", "--state", "dead")...); !strings.Contains(got, "A-1") || !strings.Contains(got, "broken") {
						t.Error(got)
					}
				}
			})
		})
	}
}

var (
	someTime = regexp.MustCompile(` +(for )?\d+(\.\d+)?(µs|ms|s)`)
	spaces   = regexp.MustCompile(` {2,}`)
)

// timeless removes times, and the blanks around them, from a screen.
func timeless(text string) string {
	return spaces.ReplaceAllString(someTime.ReplaceAllString(text, "  TIME"), "  ")
}

// Commands show the values that the table has, and leave out those it has not.
func TestAdoptedTablesAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, mapping := range map[string]string{"token": byToken, "start": byStart, "side": bySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				rows := c.rows(c.ok(x.withTable("claim", "-n", "2", "--worker", "me")...))
				if name == "side" {
					c.ok(x.withTable("finish", rows[1]["key"].(string), rows[1]["token"].(string), "--dead", "--error", "no such customer")...)
				}
				var text strings.Builder
				for _, args := range [][]string{{"ls"}, {"stats"}, {"top", "--once"}} {
					fmt.Fprintf(&text, "$ dibs %s --table mapping.yaml\n%s\n", strings.Join(args, " "), c.ok(x.withTable(args...)...))
				}
				golden.Match(t, "adopted/"+name+".txt", timeless(text.String()))
				for _, args := range [][]string{{"ls", "--json", "--all"}, {"stats", "--json"}, {"top", "--once", "--json"}} {
					if got := c.ok(x.withTable(args...)...); strings.Contains(got, "0001-01-01") || strings.Contains(got, "completed") {
						t.Errorf("dibs %v tells what it cannot know: %s", args, got)
					}
				}
			})
		})
	}
}

func TestWhatAnAdoptedTableCannotDo(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		c.fails(exitUsage, "", x.withTable("ls", "--state", "completed"), "completed rows with SQL", "docs/adopt.md")
		for _, args := range [][]string{{"ls", "other"}, {"stats", "other"}, {"claim", "other"}, {"work", "other", "--", "true"}, {"work", "-q", "tickets", "-q", "other", "--", "true"}} {
			c.fails(exitNotFound, "", x.withTable(args...), `"other"`, "tickets")
		}
		c.fails(exitUsage, "", x.withTable("ls", "--schema", "x"), "SCHEMA.NAME")
		c.fails(exitUsage, "", []string{"ls", "--table", ""}, "empty")
		c.fails(exitUsage, "", []string{"ls", "--table", filepath.Join(t.TempDir(), "none.yaml")}, "none.yaml")
		c.fails(exitUsage, "", []string{"ls", "--table", c.write("bad.yaml", byToken+"nonsense: 1\n")}, "bad.yaml", "nonsense")
		c.fails(exitUsage, "", []string{"ls", "--table", c.write("bad.yaml", strings.Replace(byToken, "id: ref", "id: reff", 1))}, "bad.yaml: id", "reff", "ref")
		for verb, do := range map[string]string{
			"enqueue": "insert rows with SQL", "edit": "change rows with SQL", "cancel": "with SQL", "prune": "delete rows with SQL",
			"pause": "stop its workers", "queue": "in the mapping", "check": "adopt check", "locks": "",
		} {
			c.fails(exitUsage, "", x.withTable(verb), "'dibs "+verb+"' does not work on an adopted table", do, "docs/adopt.md")
		}
		c.fails(exitUsage, "", x.withTable("enqueue", "--tables", "x"), "unknown flag: --tables", "dibs enqueue --help")
		c.fails(exitUsage, "", []string{"ls", "--stat", "dead"}, "unknown flag: --stat; did you mean --state?")
		c.fails(exitUsage, "", []string{"ls", "--limt", "2"}, "unknown flag: --limt; did you mean --limit?")
		c.fails(exitUsage, "", []string{"stats", "--queue", "demo"}, "unknown flag: --queue", "the queue is an argument: dibs stats [QUEUE]")
		c.fails(exitUsage, "", x.withTable("requeue", "17"), "requeue", "with SQL", "docs/adopt.md")
		lockOnly := c.write("lock.yaml", ticketsHead)
		c.fails(exitUsage, "", []string{"claim", "--table", lockOnly}, "claim", "side_table")
		if r := c.run("", "work", "--table", lockOnly, "--", "true"); r.code != exitUsage || !strings.Contains(r.err, "dibs: claim: the mapping names no column") {
			t.Errorf("exit code %d: %s", r.code, r.err)
		}
		c.fails(exitNotFound, "", x.withTable("show", "6465633759962072763"), "no such job", "the row's own id (ref)", "dibs ls --table "+x.mapping)
		for _, args := range [][]string{{"extend"}, {"finish", "--completed"}} {
			r := c.run("", x.withTable(append(args, "6465633759962072763", strings.Repeat("1f", 16))...)...)
			c.refused(r, exitLeaseLost, args, "6465633759962072763", "the row's own id (ref)")
		}
	})
}

func TestTheMappingIsFoundInTheEnvironment(t *testing.T) {
	c := &cli{t: t, db: "sqlite:" + filepath.Join(t.TempDir(), "test.db")}
	c.ok("migrate")
	x := adoptTickets(c, byToken)
	t.Setenv("DIBS_TABLE", x.mapping)
	if got := c.ok("stats"); !strings.HasPrefix(got, "QUEUE    WAITING") || !strings.Contains(got, "tickets") {
		t.Error(got)
	}
	if got := c.ok("queue"); strings.Contains(got, "tickets") {
		t.Errorf("a command for dibs' own queues heeds it: %s", got)
	}
	c.ok("enqueue", "q", "1")
	for _, args := range [][]string{{"cancel", "1"}, {"edit", "1", "--priority", "1"}, {"prune", "--older-than", "0s"}} {
		c.fails(exitUsage, "", args, "DIBS_TABLE", "adopted table", "unset DIBS_TABLE")
	}
	c.db = "sqlite:" + filepath.Join(t.TempDir(), "none.db")
	c.fails(exitUsage, "", []string{"ls"}, "no database file", "--db")
	if _, err := os.Stat(strings.TrimPrefix(c.db, "sqlite:")); err == nil {
		t.Error("it made a file")
	}
}

// Without --table, an error suggests it, and dibs creates no table in another program's file.
func TestWithoutTheMappingNothingIsMadeInAnothersFile(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, db: "sqlite:" + filepath.Join(t.TempDir(), "shop.db")}
	file, err := os.Create(strings.TrimPrefix(c.db, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	x := adoptTickets(c, byToken)
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
		c.fails(exitSchema, "", args, "there are no tables of dibs in", "shop.db", "dibs migrate", "--table MAPPING")
	}
	for _, args := range [][]string{{"stats"}, {"ls"}, {"claim"}, {"show"}, {"work"}} {
		given := append(args, x.mapping)
		if args[0] == "work" {
			given = append(given, "--", "true")
		}
		c.fails(exitUsage, "", given, "did you mean --table "+x.mapping+"?")
	}
	var mode string
	if err := x.sql.QueryRow("pragma journal_mode").Scan(&mode); err != nil || mode != "delete" {
		t.Errorf("the file's journal is %q, %v", mode, err)
	}
	if n := x.count("select count(*) from sqlite_schema where type = 'table'"); n != 1 {
		t.Errorf("the file holds %d tables", n)
	}
	for _, args := range [][]string{{"enqueue", "emails"}, {"work", "emails", "--until-empty", "--", "true"}} {
		c.fails(exitSchema, "", args, "shop.db", "no tables of dibs", "dibs migrate")
	}
	c.ok("migrate") // makes it dibs' file, too
	c.ok("enqueue", "emails")
	c.fails(exitNotFound, "", []string{"stats", "orders.yaml"}, "orders.yaml", "did you mean --table orders.yaml?", "emails")
}
