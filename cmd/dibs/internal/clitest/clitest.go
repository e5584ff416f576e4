// Package clitest runs the command in tests of its packages.
package clitest

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

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

// AsCommand is the environment variable that makes the test program run as the command:
// some tests need processes that they can kill.
const AsCommand = "DIBS_TEST_AS_COMMAND"

// newRoot makes the commands that tests of a package run; Main sets it.
var newRoot func(*cmdline.App) *cobra.Command

// Main is the TestMain of a package whose tests run these commands.
func Main(m *testing.M, root func(*cmdline.App) *cobra.Command) {
	newRoot = root
	if os.Getenv(AsCommand) != "" {
		cmdline.Main(root)
	}
	for _, name := range []string{"DIBS_DB", "DIBS_SCHEMA", "DIBS_PREFIX", "DIBS_TABLE"} {
		_ = os.Unsetenv(name) // fails only for an invalid name
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("DIBS_TEST_SELF", self) // path of dibs for programs that call it
	cmdline.CompletionTakes = Patience    // the machine may be busy
	needs.Split()
	os.Exit(m.Run())
}

// Run runs the command and returns its exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := cmdline.NewApp(stdin, stdout, stderr)
	return a.Run(ctx, newRoot(a), args)
}

// Patience is the time limit for steps that should take no time.
const Patience = 5 * time.Minute

// CLI runs the command on one database.
type CLI struct {
	T  *testing.T
	DB string
}

// OnEach runs a test on a fresh database of PostgreSQL and of SQLite, and then checks that the database
// is consistent.
func OnEach(t *testing.T, test func(c *CLI)) {
	t.Helper()
	t.Parallel()
	run := func(t *testing.T, db string) {
		test(&CLI{T: t, DB: db})
		consistent(t, db)
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
		if err := Migrate(db); err != nil {
			t.Fatal(err)
		}
		run(t, db)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		run(t, pgtest.Filled(t, "migrated", Migrate))
	})
}

// OnAll is OnEach, and runs the test on MariaDB, too.
func OnAll(t *testing.T, test func(c *CLI)) {
	t.Helper()
	OnEach(t, test)
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		onMariaDB(t, test)
	})
}

// OnAllAtNight is OnAll for tests that run on MariaDB in make night only.
func OnAllAtNight(t *testing.T, test func(c *CLI)) {
	t.Helper()
	OnEach(t, test)
	t.Run("mariadb", func(t *testing.T) {
		needs.Night(t, "in make test the commands for jobs are tried on MariaDB")
		t.Parallel()
		onMariaDB(t, test)
	})
}

func onMariaDB(t *testing.T, test func(c *CLI)) {
	t.Helper()
	db := mytest.URL(t)
	if err := Migrate(db); err != nil {
		t.Fatal(err)
	}
	test(&CLI{T: t, DB: db})
	consistent(t, db)
}

// consistent fails the test if the database is not.
func consistent(t *testing.T, url string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	db, err := open.Database(ctx, open.URL(url), open.Options{Existing: true})
	if err != nil {
		t.Error(err)
		return
	}
	if found, err := db.Check(ctx); err != nil || len(found) > 0 {
		t.Errorf("dibs check finds %q: %v", found, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Migrate makes the schema in a database.
func Migrate(url string) error {
	return open.Migrate(context.Background(), open.URL(url), open.Options{})
}

// OnPostgres reports whether the database is one of a PostgreSQL server.
func (c *CLI) OnPostgres() bool { return strings.HasPrefix(c.DB, "postgres") }

// OnMariaDB reports whether the database is one of a MariaDB server.
func (c *CLI) OnMariaDB() bool { return open.IsMariaDB(open.URL(c.DB)) }

// OnSQLite is OnEach for tests that do not depend on the kind of database.
func OnSQLite(t *testing.T) *CLI {
	t.Parallel()
	return &CLI{T: t, DB: "sqlite:" + filepath.Join(t.TempDir(), "test.db")}
}

// Result holds the outputs and the exit code of one run of the command.
type Result struct {
	Code     int
	Out, Err string
}

func (c *CLI) Run(stdin string, args ...string) Result {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, err bytes.Buffer
	if c.DB != "" {
		args = append([]string{"--db", c.DB}, args...)
	}
	code := Run(ctx, args, strings.NewReader(stdin), &out, &err)
	return Result{code, out.String(), err.String()}
}

// Command returns the command as a process of its own.
func (c *CLI) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Getenv("DIBS_TEST_SELF"), append([]string{"--db", c.DB}, args...)...)
	cmd.Env = append(os.Environ(), AsCommand+"=1")
	return cmd
}

func (c *CLI) Finished(cmd *exec.Cmd) Result {
	c.T.Helper()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && cmd.ProcessState == nil {
		c.T.Fatal(e)
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

// OK runs the command, which must succeed without a message, and returns its stdout.
func (c *CLI) OK(args ...string) string {
	c.T.Helper()
	return c.Feed("", args...)
}

// Feed is OK with something on stdin. Leases of claims last for an hour unless args say otherwise: on a busy machine a test
// may go on after the default's 10 s.
func (c *CLI) Feed(stdin string, args ...string) string {
	c.T.Helper()
	if args[0] == "claim" && !slices.Contains(args, "--lease") && !slices.Contains(args, "--table") {
		args = append([]string{"claim", "--lease", "1h"}, args[1:]...)
	}
	r := c.Run(stdin, args...)
	if r.Code != cmdline.ExitOK || r.Err != "" {
		c.T.Fatalf("dibs %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r.Out
}

// Fails runs the command, which must end with that exit code, write nothing to
// stdout, and say all of the given words on stderr, in this order.
func (c *CLI) Fails(code int, stdin string, args []string, words ...string) {
	c.T.Helper()
	r := c.Run(stdin, args...)
	c.Refused(r, code, args, words...)
	if r.Out != "" {
		c.T.Errorf("dibs %s writes %q to stdout", brief(args), r.Out)
	}
}

func (c *CLI) Refused(r Result, code int, args []string, words ...string) {
	c.T.Helper()
	if r.Code != code {
		c.T.Errorf("dibs %s: exit code %d, want %d\n%s", brief(args), r.Code, code, r.Err)
	}
	if !strings.HasPrefix(r.Err, "dibs: ") {
		c.T.Errorf("dibs %s: the message does not begin with dibs: %q", brief(args), r.Err)
	}
	rest := r.Err
	for _, w := range words {
		_, after, found := strings.Cut(rest, w)
		if !found {
			c.T.Errorf("dibs %s: the message lacks %q:\n%s", brief(args), w, r.Err)
			return
		}
		rest = after
	}
	if len(r.Err) > 800 {
		c.T.Errorf("dibs %s: the message has %d bytes:\n%s", brief(args), len(r.Err), r.Err)
	}
}

func brief(args []string) string { return fmt.Sprintf("%.120q", args) }

// Object is a line of JSON.
type Object map[string]any

// Rows reads lines of JSON.
func (c *CLI) Rows(text string) []Object {
	c.T.Helper()
	var rows []Object
	for line := range strings.Lines(text) {
		var o Object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			c.T.Fatalf("%q is not an object of JSON: %v", line, err)
		}
		rows = append(rows, o)
	}
	return rows
}

// Row reads one line of JSON.
func (c *CLI) Row(text string) Object {
	c.T.Helper()
	rows := c.Rows(text)
	if len(rows) != 1 {
		c.T.Fatalf("got %d lines, want 1: %s", len(rows), text)
	}
	return rows[0]
}

// Job shows a job.
func (c *CLI) Job(id int) Object {
	c.T.Helper()
	return c.Row(c.OK("show", fmt.Sprint(id), "--json"))
}

// Has checks some fields of an object.
func (c *CLI) Has(o Object, want Object) {
	c.T.Helper()
	for field, value := range want {
		got, err := json.Marshal(o[field])
		want, wantErr := json.Marshal(value)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			c.T.Errorf("%s is %s, want %s, in %v", field, got, want, o)
		}
	}
}

// HasNot checks that an object does not have some fields.
func (c *CLI) HasNot(o Object, fields ...string) {
	c.T.Helper()
	for _, f := range fields {
		if v, ok := o[f]; ok {
			c.T.Errorf("%s is %v, should not be there, in %v", f, v, o)
		}
	}
}

// Stats returns the counts of a queue.
func (c *CLI) Stats(queue string) Object {
	c.T.Helper()
	return c.Row(c.OK("stats", queue, "--json"))
}

// Write creates a file for a test.
func (c *CLI) Write(name, text string) string {
	c.T.Helper()
	path := filepath.Join(c.T.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.T.Fatal(err)
	}
	return path
}
