package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

func TestDatabasesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, db string
		code     int
		words    []string
	}{
		{"unknown scheme", "oracle://root:secret@localhost/x", cmdline.ExitUsage, []string{`unknown kind of database: oracle`, "sqlite:PATH or postgres://"}},
		{"no scheme", "jobs", cmdline.ExitUsage, []string{`unknown kind of database`, "sqlite:PATH"}},
		{"no path", "sqlite:", cmdline.ExitUsage, []string{"names no file", "sqlite:dibs.db"}},
		{"in memory", "sqlite::memory:", cmdline.ExitUsage, []string{"names no file"}},
		{"a key", "sqlite:" + filepath.Join(dir, "x.DB") + "?key=secret", cmdline.ExitUsage, []string{"takes no parameters", "x.DB"}},
		{"directory", "sqlite:" + dir, cmdline.ExitUsage, []string{dir + " is a directory", filepath.Join(dir, "dibs.db")}},
		{"missing folder", "sqlite:" + filepath.Join(dir, "no", "x.DB"), cmdline.ExitUsage, []string{"there is no folder " + filepath.Join(dir, "no")}},
		{"missing folder on the way", "sqlite:" + dir + "/no/../x.DB", cmdline.ExitUsage, []string{"there is no folder " + dir + "/no/.."}},
		{"not SQLite", "sqlite:" + text, cmdline.ExitUsage, []string{text + " is not a SQLite database", "--db"}},
		{"bad URL", "postgres://user:p%ss@host/x", cmdline.ExitUsage, []string{"the PostgreSQL URL cannot be read", "%XX"}},
		{"bad option", "postgres://host/x?sslmode=maybe", cmdline.ExitUsage, []string{"sslmode is invalid", "postgres://user:password@host:5432/database"}},
		{"bad port", "postgres://host:many/x", cmdline.ExitUsage, []string{"the PostgreSQL URL cannot be read"}},
		{"unreachable", "postgres://app:secret@" + clitest.DeafAddress(t) + "/x", cmdline.ExitUnavailable, []string{"no PostgreSQL server answers at 127.0.0.1:", "check host and port"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t, test.db)
			for _, args := range [][]string{{"enqueue", "q"}, {"migrate"}} {
				c.Fails(test.code, "", args, test.words...)
			}
			if r := c.Run("", "stats"); strings.Contains(r.Err, "secret") {
				t.Errorf("the message tells the password: %s", r.Err)
			}
		})
	}
}

func TestFlagsOfTheOtherDatabase(t *testing.T) {
	c := onSQLite(t)
	c.Fails(cmdline.ExitUsage, "", []string{"migrate", "--schema", "x"}, "--schema is for PostgreSQL", "--prefix")
	c.DB = "postgres://localhost/x"
	c.Fails(cmdline.ExitUsage, "", []string{"migrate", "--prefix", "x"}, "--prefix is for SQLite", "--schema")
}

// Every command refuses an invalid name of a schema or prefix of tables, whether it connects
// or not.
func TestNamesThatNoTablesCanHave(t *testing.T) {
	c := onSQLite(t)
	c.OK("migrate")
	for _, prefix := range []string{"p$", "1", "sqlite_", "SQLite_x", "a b", "a;b", "\x00", "\u009b", "é", strings.Repeat("p", 33)} {
		for _, args := range [][]string{{"migrate", "--print"}, {"migrate"}, {"enqueue", "q"}, {"migrate", "--print", "--json"}} {
			c.Fails(cmdline.ExitUsage, "", append(args, "--prefix", prefix), "prefix: must be a letter and then")
		}
	}
	c.DB = "postgres://nobody@" + clitest.DeafAddress(t) + "/x"
	for _, schema := range []string{"p$", "1", "a.b", "a b", "a;b", "\x00", "\u009b", "é", strings.Repeat("s", 64)} {
		for _, args := range [][]string{{"migrate", "--print"}, {"migrate"}, {"enqueue", "q"}, {"ls"}} {
			c.Fails(cmdline.ExitUsage, "", append(args, "--schema", schema), "schema: must be 1 to 63 letters")
		}
	}
}

func TestReadingVerbsMakeNoFile(t *testing.T) {
	c := onSQLite(t)
	for _, args := range [][]string{
		{"ls"},
		{"show", "1"},
		{"stats"},
		{"queue"},
		{"check"},
		{"cancel", "1"},
		{"requeue", "1"},
		{"edit", "1", "-p", "1"},
		{"pause", "q"},
		{"resume", "q"},
		{"prune", "--older-than", "1h"},
		{"queue", "q", "--concurrency", "1"},
	} {
		c.Fails(cmdline.ExitSchema, "", args, "there is no database file", "dibs migrate")
	}
	if _, err := os.Stat(strings.TrimPrefix(c.DB, "sqlite:")); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
}

func TestMissingSchema(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgtest.URL(t))
	for _, args := range [][]string{{"enqueue", "q"}, {"ls"}, {"claim"}, {"work", "q", "--", "true"}} {
		c.Fails(cmdline.ExitSchema, "", args, "schema \"dibs\" is missing in this database\n      'dibs migrate' makes")
	}
	c.Fails(cmdline.ExitSchema, "", []string{"ls", "--schema", "other"}, `schema "other" is missing`)
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	right := u.String()
	u.User = url.UserPassword(u.User.Username(), "wr0ng-secret")
	c := newCLI(t, u.String())
	r := c.Run("", "ls")
	if r.Code == cmdline.ExitSchema {
		t.Skip("this server asks for no password")
	}
	c.Fails(cmdline.ExitUnavailable, "", []string{"ls"}, "refuses user", "wrong password", "--db or $DIBS_DB")
	if strings.Contains(r.Err, "wr0ng") {
		t.Errorf("the message tells the password: %s", r.Err)
	}
	u, err = url.Parse(right)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no-such-database"
	c.DB = u.String()
	c.Fails(cmdline.ExitUnavailable, "", []string{"ls"}, `has no database "no-such-database"`, "createdb")
}

// Every verb refuses jobs that no store may take.
// badJob is a command that is refused, and what it says.
type badJob struct {
	args    []string
	message string
}

func badJobs() []badJob {
	long := strings.Repeat("n", 10_000)
	return []badJob{
		{[]string{"enqueue", "q", "{broken"}, "payload: is not valid JSON: invalid character 'b'"},
		{[]string{"enqueue", "q", ""}, "payload: is empty; it must be JSON (null for none)"},
		{[]string{"enqueue", "q", `"` + "\xff" + `"`}, "payload: is not valid UTF-8"},
		{[]string{"enqueue", "q", `"` + strings.Repeat("x", 1<<20) + `"`}, `payload: is 1048578 bytes, the limit of queue "q" is 1048576`},
		{[]string{"enqueue", "q", "--priority", "-1"}, "priority: must be 0 to 32767, got -1"},
		{[]string{"enqueue", "q", "--priority", "32768"}, "priority: must be 0 to 32767, got 32768"},
		{[]string{"enqueue", "q", "--delay", "-1s"}, "delay: must not be negative, got -1s"},
		{[]string{"enqueue", "q", "--delay", "4000d"}, "delay: must be at most"},
		{[]string{"enqueue", "q", "--max-attempts", "-1"}, "max_attempts: must be 1 to 1000000"},
		{[]string{"enqueue", ""}, "queue: is missing"},
		{[]string{"enqueue", long}, "queue: is 10000 bytes, the limit is 255"},
		{[]string{"enqueue", "a\x00b"}, `queue: must not contain control characters, has '\x00' in "a\x00b"`},
		{[]string{"enqueue", "a\nb"}, "queue: must not contain control characters"},
		{[]string{"enqueue", "a\xffb"}, "queue: is not valid UTF-8"},
		{[]string{"enqueue", "q", "--kind", long}, "kind: is 10000 bytes, the limit is 255"},
		{[]string{"enqueue", "q", "--kind", "\x00"}, "kind: must not contain control characters"},
		{[]string{"enqueue", "q", "--group", long}, "group: is 10000 bytes, the limit is 255"},
		{[]string{"enqueue", "q", "--unique", long}, "unique_key: is 10000 bytes, the limit is 512"},
		{[]string{"enqueue", "q", "--unique", "a\x00b"}, "unique_key: must not contain control characters"},
		{[]string{"enqueue", "q", "--unique", "u", "--unique-until", "noon"}, `unique_until: must be "finished" or "claimed", got "noon"`},
		{[]string{"enqueue", "q", "--unique-until", "claimed"}, "unique_until: needs a unique_key"},
		{[]string{"enqueue", "q", "--unique-for", "1h"}, "unique_for: needs a unique_key"},
		{[]string{"enqueue", "q", "--unique", "u", "--unique-for", "1us"}, "unique_for: must be at least 1ms, got 1µs"},
		{[]string{"enqueue", "q", "--unique-window", "day"}, "unique_window: needs a unique_key"},
		{[]string{"enqueue", "q", "--unique", "u", "--unique-window", "decade"}, `unique_window: must be "hour", "day", "week" or "month"`},
		{[]string{"enqueue", "q", "--unique", "u", "--unique-window", "day in Atlantis"}, `unique_window: "Atlantis" is no known time zone`},
		{[]string{"enqueue", "q", "--unique", "u", "--unique-window", "day", "--unique-for", "1h"}, "unique_window: give either unique_for or unique_window, not both"},
		{[]string{"enqueue", "q", "--if-held", "replace"}, "if_held: needs a unique_key"},
		{[]string{"enqueue", "q", "--unique", "u", "--if-held", "merge"}, `if_held: must be "keep", "replace" or "push", got "merge"`},
		{[]string{"enqueue", "q", "--unique", "u", "--if-held", "push", "--delay-limit", "1h"}, `run_at: is missing: if_held "push" moves run_at on`},
		{[]string{"enqueue", "q", "--unique", "u", "--if-held", "push", "--delay", "1s"}, "delay_limit: is missing"},
		{[]string{"enqueue", "q", "--unique", "u", "--delay-limit", "1h"}, `delay_limit: needs if_held "replace" or "push"`},
		{[]string{"enqueue", "q", "--metadata", `{"dibs.schedule":"x"}`}, `metadata: must not have members whose names begin with "dibs."`},
		{[]string{"enqueue", "q", "--metadata", "[]"}, "metadata: must be a JSON object"},
		{[]string{"enqueue", "q", "--metadata", `{"a":"` + strings.Repeat("x", 20_000) + `"}`}, "metadata: is 20008 bytes, the limit is 16384"},
		{[]string{"claim", long}, "queue: is 10000 bytes, the limit is 255"},
		{[]string{"claim", "q", "--worker", long}, "worker: is 10000 bytes, the limit is 255"},
		{[]string{"claim", "q", "--worker", "a\x00"}, "worker: must not contain control characters"},
		{[]string{"claim", "q", "--kind", ""}, "kinds[0]: is missing"},
		{[]string{"claim", "q", "-n", "-1"}, "n: must be 1 to 10000, got -1"},
		{[]string{"ls", "--kind", long}, "kind: is 10000 bytes, the limit is 255"},
		{[]string{"ls", "--group", "a\x00b"}, "group: must not contain control characters"},
		{[]string{"queue", long, "--create"}, "queue: is 10000 bytes, the limit is 255"},
		{[]string{"work", "q", "--concurrency", "0", "--", "true"}, "concurrency: must be at least 1, got 0"},
		{[]string{"work", "q", "--concurrency", "-1", "--", "true"}, "concurrency: must be at least 1, got -1"},
		{[]string{"work", "q", "--concurrency", "5001", "--", "true"}, "worker.concurrency: must be 1 to 5000, got 5001"},
		{[]string{"work", "q", "--lease", "1ms", "--", "true"}, "worker.lease: must be 100ms"},
		{[]string{"work", "q", "--timeout", "-1s", "--", "true"}, "worker.job_timeout: must not be negative"},
		{[]string{"work", "q", "--resume", "--", "true"}, "worker.resume: needs a name"},
		{[]string{"work", "q", "--kind", "", "--kind", "", "--", "true"}, "kind: is missing"},
		{[]string{"work", "q", "--kind", "a", "--kind", "a", "--", "true"}, `kind: "a" is named twice`},
		{[]string{"work", long, "--", "true"}, "queue: is 10000 bytes"},
		{[]string{"work", "--queue", "", "--", "true"}, "queue: is missing"},
		{[]string{"work", "--queue", "a:2", "--queue", "a", "--", "true"}, `queue: "a" is named twice`},
		{[]string{"work", "--queue", "a:0", "--", "true"}, "the weight must be 1 to 1000, got 0"},
		{[]string{"work", "--queue", "a:1001", "--", "true"}, "the weight must be 1 to 1000, got 1001"},
		{[]string{"work", "--queue", "a:99999999999999999999", "--", "true"}, "the weight must be 1 to 1000"},
		{[]string{"work", "--queue", "a:max=0", "--", "true"}, `max must be a number from 1, got "0"`},
		{[]string{"work", "--queue", "a:3:max=", "--", "true"}, `max must be a number from 1, got ""`},
		{[]string{"work", "a", "--queue", "b", "--", "true"}, `queue "a" is named beside --queue`},
		{[]string{"work", "a", "b", "--", "true"}, "give --queue for each"},
		{[]string{"work", "q", "--listen", "no port", "--", "true"}, "--listen: "},
		{[]string{"work", "q", "--insecure", "--", "true"}, "--tokens and --insecure go with --listen only"},
		{[]string{"work", "q", "--listen", "127.0.0.1:0", "--tokens", "no-such-file", "--", "true"}, "--tokens: "},
	}
}

func TestBadJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		for _, test := range badJobs() {
			r := c.Run("", test.args...)
			if logged, rest, cut := strings.Cut(r.Err, "\n"); cut && strings.Contains(logged, "opened the database") { // the worker finds the mistake
				r.Err = rest
			}
			c.Refused(r, cmdline.ExitUsage, test.args, test.message)
		}
		c.Has(c.Stats("q"), object{"waiting": 1, "enqueued": 1})
	})
}

func TestFileThatCannotBeRead(t *testing.T) {
	c := onSQLite(t)
	c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "q", "--file", "no-such.csv"}, "no-such.csv: no such file or directory", "--file")
	c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "q", "--file", "no-such.csv", "--partial"}, "no-such.csv: no such file or directory")
	c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "q", "--lines", "--file", t.TempDir()}, "is a directory")
	path := c.Write("jobs.jsonl", "1\n")
	c.Fails(cmdline.ExitUsage, "", []string{"enqueue", path, "--jobs"}, path+" is a file", "--file")
}
