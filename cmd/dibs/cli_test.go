package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// asCommand is the environment variable that makes the test program run as the command:
// some tests need processes that they can kill.
const asCommand = "DIBS_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	for _, name := range []string{"DIBS_DB", "DIBS_SCHEMA", "DIBS_PREFIX", "DIBS_TABLE"} {
		os.Unsetenv(name)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	os.Setenv("DIBS_TEST_SELF", self) // path of dibs for programs that call it
	completionTakes = patience        // the machine may be busy
	needs.Split()
	os.Exit(m.Run())
}

// patience is the time limit for steps that should take no time.
const patience = 5 * time.Minute

// cli runs the command on one database.
type cli struct {
	t  *testing.T
	db string
}

// onEach runs a test on a fresh database of each kind, and then checks that the database
// is consistent.
func onEach(t *testing.T, test func(c *cli)) {
	t.Helper()
	t.Parallel()
	run := func(t *testing.T, db string) {
		c := &cli{t: t, db: db}
		test(c)
		if got := c.ok("check"); got != "nothing wrong\n" {
			t.Errorf("dibs check: %s", got)
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
		if err := migrated(db); err != nil {
			t.Fatal(err)
		}
		run(t, db)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		run(t, pgtest.Filled(t, "migrated", migrated))
	})
}

// migrated runs 'dibs migrate'.
func migrated(db string) error {
	var errs bytes.Buffer
	if code := run(context.Background(), []string{"--db", db, "migrate"}, strings.NewReader(""), io.Discard, &errs); code != exitOK || errs.Len() > 0 {
		return fmt.Errorf("dibs migrate: exit code %d: %s", code, &errs)
	}
	return nil
}

// onSQLite is onEach for tests that do not depend on the kind of database.
func onSQLite(t *testing.T) *cli {
	t.Parallel()
	return &cli{t: t, db: "sqlite:" + filepath.Join(t.TempDir(), "test.db")}
}

// runResult holds the outputs and the exit code of one run of the command.
type runResult struct {
	code     int
	out, err string
}

func (c *cli) run(stdin string, args ...string) runResult {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, err bytes.Buffer
	if c.db != "" {
		args = append([]string{"--db", c.db}, args...)
	}
	code := run(ctx, args, strings.NewReader(stdin), &out, &err)
	return runResult{code, out.String(), err.String()}
}

// command returns the command as a process of its own.
func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Getenv("DIBS_TEST_SELF"), append([]string{"--db", c.db}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

func (c *cli) finished(cmd *exec.Cmd) runResult {
	c.t.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && cmd.ProcessState == nil {
		c.t.Fatal(e)
	}
	return runResult{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

// ok runs the command, which must succeed without a message, and returns its stdout.
func (c *cli) ok(args ...string) string {
	c.t.Helper()
	return c.feed("", args...)
}

// feed is ok with something on stdin. Leases of claims last for an hour unless args say otherwise: on a busy machine a test
// may go on after the default's 10 s.
func (c *cli) feed(stdin string, args ...string) string {
	c.t.Helper()
	if args[0] == "claim" && !slices.Contains(args, "--lease") && !slices.Contains(args, "--table") {
		args = append([]string{"claim", "--lease", "1h"}, args[1:]...)
	}
	r := c.run(stdin, args...)
	if r.code != exitOK || r.err != "" {
		c.t.Fatalf("dibs %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// fails runs the command, which must end with that exit code, write nothing to
// stdout, and say all of the given words on stderr, in this order.
func (c *cli) fails(code int, stdin string, args []string, words ...string) {
	c.t.Helper()
	r := c.run(stdin, args...)
	c.refused(r, code, args, words...)
	if r.out != "" {
		c.t.Errorf("dibs %s writes %q to stdout", brief(args), r.out)
	}
}

func (c *cli) refused(r runResult, code int, args []string, words ...string) {
	c.t.Helper()
	if r.code != code {
		c.t.Errorf("dibs %s: exit code %d, want %d\n%s", brief(args), r.code, code, r.err)
	}
	if !strings.HasPrefix(r.err, "dibs: ") {
		c.t.Errorf("dibs %s: the message does not begin with dibs: %q", brief(args), r.err)
	}
	rest := r.err
	for _, w := range words {
		_, after, found := strings.Cut(rest, w)
		if !found {
			c.t.Errorf("dibs %s: the message lacks %q:\n%s", brief(args), w, r.err)
			return
		}
		rest = after
	}
	if len(r.err) > 700 {
		c.t.Errorf("dibs %s: the message has %d bytes:\n%s", brief(args), len(r.err), r.err)
	}
}

func brief(args []string) string { return fmt.Sprintf("%.120q", args) }

// object is a line of JSON.
type object map[string]any

// rows reads lines of JSON.
func (c *cli) rows(text string) []object {
	c.t.Helper()
	var rows []object
	for line := range strings.Lines(text) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			c.t.Fatalf("%q is not an object of JSON: %v", line, err)
		}
		rows = append(rows, o)
	}
	return rows
}

// row reads one line of JSON.
func (c *cli) row(text string) object {
	c.t.Helper()
	rows := c.rows(text)
	if len(rows) != 1 {
		c.t.Fatalf("got %d lines, want 1: %s", len(rows), text)
	}
	return rows[0]
}

// job shows a job.
func (c *cli) job(id int) object {
	c.t.Helper()
	return c.row(c.ok("show", fmt.Sprint(id), "--json"))
}

// has checks some fields of an object.
func (c *cli) has(o object, want object) {
	c.t.Helper()
	for field, value := range want {
		got, err := json.Marshal(o[field])
		want, wantErr := json.Marshal(value)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			c.t.Errorf("%s is %s, want %s, in %v", field, got, want, o)
		}
	}
}

// hasNot checks that an object does not have some fields.
func (c *cli) hasNot(o object, fields ...string) {
	c.t.Helper()
	for _, f := range fields {
		if v, ok := o[f]; ok {
			c.t.Errorf("%s is %v, should not be there, in %v", f, v, o)
		}
	}
}

// stats returns the counts of a queue.
func (c *cli) stats(queue string) object {
	c.t.Helper()
	return c.row(c.ok("stats", queue, "--json"))
}

// write creates a file for a test.
func (c *cli) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}
