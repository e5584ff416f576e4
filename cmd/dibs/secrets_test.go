package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// secret is a password wherever tests plant one.
const secret = "S3CRET"

// secretURLs name databases in right and wrong ways, each with a password. No server listens
// at these addresses.
var secretURLs = []string{
	"postgres://u:S3CRET@127.0.0.1:1/db",
	"postgres://u:S3CRET@127.0.0.1:1,127.0.0.1:2/db?sslmode=disable",
	"postgres://127.0.0.1:1/db?user=u&password=S3CRET",
	"postgresql://127.0.0.1:1/db?PASSWORD=S3CRET&sslmode=disable",
	"postgres://127.0.0.1:1/db?p%61ssword=S3CRET",
	"postgres://u@127.0.0.1:1/db?sslpassword=S3CRET&passfile=/S3CRET",
	"postgres://u:S3CRET@127.0.0.1:1/db?sslmode=maybe",
	"postgres://127.0.0.1:1/db?pool_max_conns=x&password=S3CRET",
	"postgres://u:a/S3CRET@127.0.0.1:1/db",
	"postgres://u:1#S3CRET@127.0.0.1:1/db",
	"postgres://u:%S3CRET@127.0.0.1:1/db",
	"postgres:u:S3CRET@127.0.0.1:1/db",
	"mysql://u:S3CRET@127.0.0.1:1/db",
	"u:S3CRET@h/db",
	"u:S3CRET@h/x.DB",
	"u:a/S3CRET@h/x.sqlite3",
	"sqlite:u:S3CRET@h/x.DB",
	"host=127.0.0.1 port=1 password=S3CRET",
	"host=127.0.0.1 password='a S3CRET' dbname=x.DB",
	"sqlite:host=h password=S3CRET",
}

// movePassword moves the password of a server's URL into a parameter, and returns it. SQLite
// has none.
func (c *cli) movePassword() string {
	c.T.Helper()
	u, err := url.Parse(c.DB)
	if err != nil {
		c.T.Fatal(err)
	}
	password, has := u.User.Password()
	if !has {
		return "no password"
	}
	q := u.Query()
	q.Set("password", password)
	u.User, u.RawQuery = url.User(u.User.Username()), q.Encode()
	c.DB = u.String()
	return password
}

// runUntilItSpeaks runs a command that is interrupted once it has written to stderr: some wait for their server then.
func (c *cli) runUntilItSpeaks(args ...string) runResult {
	ctx, cancel := context.WithCancel(c.T.Context())
	defer cancel()
	var out bytes.Buffer
	said := &interrupting{interrupt: cancel}
	code := run(ctx, args, strings.NewReader(""), &out, said)
	return runResult{Code: code, Out: out.String(), Err: said.String()}
}

// interrupting is a stderr whose first text is answered by an interrupt.
type interrupting struct {
	bytes.Buffer
	interrupt func()
}

func (w *interrupting) Write(p []byte) (int, error) {
	w.interrupt()
	return w.Buffer.Write(p)
}

// Every command gets a database that it cannot use, by flag and by environment.
func TestNoErrorTellsAPassword(t *testing.T) {
	dir := t.TempDir()
	mapping := filepath.Join(dir, "m.yaml")
	if err := os.WriteFile(mapping, []byte(clitest.ByToken), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, db := range secretURLs {
		for _, args := range [][]string{
			{"ls"},
			{"enqueue", "q"},
			{"migrate"},
			{"migrate", "--print"},
			{"top"},
			{"claim"},
			{"work", "q", "--until-empty", "--", "true"},
			{"work", "q", "--", "true"},
			{"serve", "--listen", "127.0.0.1:0"},
			{"adopt", "check", mapping},
			{"ls", "--table", mapping},
			{"demo"},
			{"torture", "--duration", "5s"},
			{"bench"},
			{"torture", "--duration", "5s", "--table", mapping},
			{"__complete", "pause", ""},
		} {
			own := args[0] == "demo" || args[0] == "bench" || args[0] == "torture"
			for _, format := range []string{"--json=false", "--json"} {
				t.Setenv("DIBS_DB", db)
				c := newCLI(t, "")
				if own {
					t.Setenv("DIBS_DB", "")
					args = append(args[:len(args):len(args)], "--db", db)
				}
				r := c.runUntilItSpeaks(append(args, format)...)
				if strings.Contains(r.Out+r.Err, secret) {
					t.Errorf("DIBS_DB=%s dibs %s: %s%s", db, strings.Join(args, " "), r.Out, r.Err)
				}
				if known := r.Code == cmdline.ExitOK || r.Code == cmdline.ExitUsage || r.Code == cmdline.ExitUnavailable; !known {
					t.Errorf("DIBS_DB=%s dibs %s: exit code %d, %s", db, strings.Join(args, " "), r.Code, r.Err)
				}
			}
		}
	}
}

// If a user forgets --db, or puts the URL in the wrong place, errors quote the wrong argument
// without its password.
func TestAURLInTheWrongPlaceIsNotQuoted(t *testing.T) {
	needs.Long(t)
	c := onSQLite(t)
	c.OK("migrate")
	for _, u := range secretURLs {
		if strings.Contains(u, "%61") {
			continue // the secret does not look like a password
		}
		for _, args := range [][]string{
			{u},
			{"help", u},
			{"help", "x", "--", "--db", u},
			{"ls", u},
			{"--db" + u},
			{"--" + u},
			{"show", u},
			{"stats", u},
			{"pause", u},
			{"cancel", u},
			{"prune", "--older-than", u},
			{"enqueue", "q", u},
			{"enqueue", "q", "--delay", u},
			{"enqueue", "q", "--run-at", u},
			{"enqueue", "q", "-p", u},
			{"queue", u},
			{"ls", "--state", u},
			{"ls", "--table", u},
			{"adopt", "init", u},
			{"queue", "q", "--group", u},
			{"finish", u, u, "--dead"},
		} {
			r := c.Run("", args...)
			if r.Code == cmdline.ExitOK || strings.Contains(r.Out+r.Err, secret) {
				t.Errorf("dibs %q: exit code %d, %s%s", args, r.Code, r.Out, r.Err)
			}
		}
	}
}

// A URL is refused as the name of a queue: it would be stored, and shown in every list.
func TestAURLIsNotKeptAsTheNameOfAQueue(t *testing.T) {
	needs.Long(t)
	c := onSQLite(t)
	c.OK("migrate")
	for _, u := range secretURLs {
		if !strings.Contains(u, "://") {
			continue
		}
		job := `{"queue":"` + u + `","payload":1}`
		for _, args := range [][]string{
			{"enqueue", u, "1"},
			{"enqueue", u, "--lines"},
			{"enqueue", u, "--lines", "--partial"},
			{"enqueue", "--file", c.Write("jobs", job), "--jobs"},
			{"enqueue", "--file", c.Write("jobs", job), "--jobs", "--partial"},
			{"enqueue", "--file", c.Write("jobs.csv", "@queue,x\n\""+u+"\",1\n")},
			{"claim", u},
			{"claim", u, "--wait", "1s"},
			{"claim", u, "--resume", "--worker", "w"},
			{"work", u, "--until-empty", "--", "true"},
			{"locks", u},
			{"ls", u},
			{"stats", u},
			{"queue", u, "--lease", "1m"},
			{"pause", u},
			{"cancel", "--queue", u},
			{"prune", "--older-than", "0s", "--queue", u},
		} {
			r := c.Run("1\n", args...)
			if r.Code == cmdline.ExitOK || strings.Contains(r.Out+r.Err, secret) {
				t.Errorf("dibs %q: exit code %d, %s%s", args, r.Code, r.Out, r.Err)
			}
			if !strings.Contains(r.Err, "the URL of a database goes to --db") {
				t.Errorf("dibs %q says %s", args, r.Err)
			}
		}
	}
	if got := c.OK("stats"); !strings.HasPrefix(got, "no queues yet") {
		t.Errorf("left: %s", got)
	}
}

func TestWhatIsPrintedOfADatabaseHoldsNoPassword(t *testing.T) {
	t.Parallel()
	const db = open.URL("postgres://u@h/d?application_name=a&password=S3CRET&sslpassword=S3CRET")
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	a.DBFlag = db
	p := place{url: db, opts: open.Options{Schema: "s"}}
	command := (&tortureOptions{}).command(db)
	var page bytes.Buffer
	result := &torture.Result{}
	result.Command = command
	err := torture.WriteReport(&page, result)
	encoded, jsonErr := json.Marshal(tortureJSONOf(result, ""))
	if err != nil || jsonErr != nil {
		t.Fatal(err, jsonErr)
	}
	const want = "'postgres://u@h/d?application_name=a&password=xxxxx&sslpassword=xxxxx'"
	if got := p.flags(); got != "--db "+want+" --schema s" {
		t.Errorf("the flags are %s", got)
	}
	if !strings.HasPrefix(command, "dibs torture --db "+want+" ") {
		t.Errorf("the command is %s", command)
	}
	for _, text := range []string{page.String(), string(encoded), root(a)} {
		if strings.Contains(text, secret) {
			t.Errorf("it holds the password: %s", text)
		}
	}
}

// root returns all texts of a root command about its flags.
func root(a *app) string {
	r := newRootCmd(a)
	return r.UsageString() + r.PersistentFlags().Lookup("db").Value.String() + r.PersistentFlags().Lookup("db").DefValue
}

// Only open.URL decides what is shown of a URL. Each place where a URL becomes a plain string,
// for a driver or the environment of a process, is listed here.
func TestNobodyElseFormatsAURL(t *testing.T) {
	t.Parallel()
	reveals := map[string]int{
		"place.go":                1, // the environment of own processes
		"torture.go":              2, // the parameters of a process, and its part
		"torture_end.go":          1, // the processes
		"internal/daemon/work.go": 1, // the environment of programs
	}
	files, err := filepath.Glob("*.go")
	below, errBelow := filepath.Glob("internal/*/*.go")
	if err != nil || errBelow != nil || len(files) < 20 || len(below) < 80 {
		t.Fatal(files, below, err, errBelow)
	}
	plain := regexp.MustCompile(`string\([A-Za-z.]*(url|URL|[dD][bB]Flag|[uU][rR][lL]\(\))\)|\.Redacted\(\)|"DIBS_DB"`)
	for _, name := range append(files, below...) {
		name = filepath.ToSlash(name)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/clitest/") {
			continue
		}
		if n := strings.Count(string(text), ".Reveal()"); n != reveals[name] {
			t.Errorf("%s reveals %d URLs, known are %d", name, n, reveals[name])
		}
		if found := plain.FindString(string(text)); found != "" && (name != "internal/cmdline/app.go" || found != `"DIBS_DB"`) {
			t.Errorf("%s has %s: use open.URL", name, found)
		}
	}
}
