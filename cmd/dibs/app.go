package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// app is one run of the command: where it reads and writes, and the flags that
// every verb has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer // guarded: they escape what a terminal must not get
	screen         io.Writer // stdout, as it is
	errScreen      io.Writer // stderr, as it is
	inTTY          bool      // stdin is a terminal
	outTTY, errTTY bool      // stdout or stderr is a terminal
	outNull        bool      // stdout is the null device, which Go puts in place of a closed one
	color          bool      // stdout may be coloured
	width          int       // columns of the terminal; 100 if stdout is none

	dbFlag open.URL // --db
	schema string   // --schema
	prefix string   // --prefix
	json   bool     // --json
	pooler bool     // --pooler
	table  string   // --table, of the commands that have it: the mapping of an adopted table

	program string // what PostgreSQL is told as application_name
	conns   int    // how many connections to PostgreSQL; 0: the default

	adopted *adoptedTable // that table once it is open; nil: dibs' own

	running bool // the arguments were understood: what fails now is no usage error
}

// run is the whole command. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	return a.run(ctx, newRootCmd(a), args)
}

func (a *app) run(ctx context.Context, root *cobra.Command, args []string) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	unwritten := a.watchOutput(stop)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch lost := unwritten(); {
	case errors.Is(lost, syscall.EPIPE) && !errors.As(err, new(*unprinted)):
		return exitInterrupted
	case err == nil && lost != nil:
		err = fmt.Errorf("stdout could not be written, though all else was done: %w", lost)
	case err == nil:
		return exitOK
	}
	if !a.running {
		err = suggestion(err)
		err = &usageError{err: err, command: cmd.CommandPath()}
	}
	return a.fail(ctx, err)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{
		stdin: stdin, screen: stdout, errScreen: stderr, width: 100,
		schema: os.Getenv("DIBS_SCHEMA"), prefix: os.Getenv("DIBS_PREFIX"),
	}
	a.guard()
	a.inTTY, a.outTTY, a.errTTY = isTTY(stdin), isTTY(stdout), isTTY(stderr)
	a.outNull = !a.outTTY && isNull(stdout)
	a.color = a.outTTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if a.outTTY {
		if w, _, err := term.GetSize(int(stdout.(*os.File).Fd())); err == nil && w >= 40 {
			a.width = w
		}
	}
	return a
}

func isTTY(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func isNull(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	null, failed := os.Stat(os.DevNull)
	return err == nil && failed == nil && os.SameFile(info, null)
}

// dbURL is the database to use: --db, else $DIBS_DB, else a file in this folder.
func (a *app) dbURL() open.URL {
	if a.dbFlag != "" {
		return a.dbFlag
	}
	if env := os.Getenv("DIBS_DB"); env != "" {
		return open.URL(env)
	}
	return open.Default
}

func (a *app) options() open.Options {
	return open.Options{Schema: a.schema, Prefix: a.prefix, Program: a.program, Conns: a.conns}
}

// jobTable is what commands need that also work on an adopted table.
type jobTable interface {
	dibs.Store
	Get(ctx context.Context, id int64) (*dibs.RawJob, error)
	List(ctx context.Context, f dibs.Filter) (dibs.Page, error)
	Requeue(ctx context.Context, ids []int64) ([]int64, error)
	Queues(ctx context.Context) ([]dibs.Queue, error)
	Stats(ctx context.Context) ([]dibs.QueueStats, error)
	Close() error
}

// open opens dibs' own tables; a SQLite file that is not there is made.
func (a *app) open(ctx context.Context) (dibs.Database, error) {
	return open.Database(ctx, a.dbURL(), a.options())
}

// openExisting is open for verbs that make no sense in an empty database: a wrong
// path must be an error there, not a new file, and nor new tables in another's.
func (a *app) openExisting(ctx context.Context) (dibs.Database, error) {
	o := a.options()
	o.Existing = true
	return open.Database(ctx, a.dbURL(), o)
}

// with runs f on the database and closes it.
func (a *app) with(ctx context.Context, f func(dibs.Database) error) error {
	db, err := a.open(ctx)
	return use(db, err, f)
}

// withExisting is with for openExisting.
func (a *app) withExisting(ctx context.Context, f func(dibs.Database) error) error {
	db, err := a.openExisting(ctx)
	return use(db, err, f)
}

// withTable runs f on the adopted table that was named, or else on what is there of dibs' own.
func (a *app) withTable(ctx context.Context, f func(jobTable) error) error {
	db, err := a.openJobTable(ctx)
	return use(db, err, f)
}

func (a *app) openJobTable(ctx context.Context) (jobTable, error) {
	if a.table != "" {
		return a.openTable(ctx)
	}
	return a.openExisting(ctx)
}

// withNewTable is withTable, but dibs' own tables are made where there is no file yet. In a SQLite
// file that is there they are not: it may hold an adopted table, and --table be forgotten.
func (a *app) withNewTable(ctx context.Context, f func(jobTable) error) error {
	if path, _, err := open.Place(a.dbURL()); a.table != "" || err != nil || path != "" && hasContent(path) {
		return a.withTable(ctx, f)
	}
	return a.with(ctx, func(db dibs.Database) error { return f(db) })
}

func hasContent(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

func use[T interface{ Close() error }](db T, err error, f func(T) error) error {
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}
