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

// app is one run of the command: its input, its outputs, and the flags that every verb
// has.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer // guarded: they escape what could control a terminal
	screen         io.Writer // stdout, not guarded
	errScreen      io.Writer // stderr, not guarded
	inTTY          bool      // stdin is a terminal
	outTTY, errTTY bool      // stdout or stderr is a terminal
	outNull        bool      // stdout is the null device, which also replaces a closed stdout
	color          bool      // stdout may be coloured
	width          int       // columns of the terminal; 100 if stdout is not one

	dbFlag open.URL // --db
	schema string   // --schema
	prefix string   // --prefix
	json   bool     // --json
	pooler bool     // --pooler
	table  string   // --table: file with the mapping of an adopted table

	applicationName string // name of this program's connections to PostgreSQL
	conns           int    // number of connections to PostgreSQL; 0: the default

	adopted *adoptedTable // open adopted table; nil: dibs' own tables
	newFile bool          // open has made the SQLite file

	running bool // the arguments are valid, so a failure is no usage error
}

// run runs the command and returns its exit code.
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
	case errors.Is(lost, syscall.EPIPE) && !errors.As(err, new(*unprintedJobs)):
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

// dbURL returns the database to use: --db, else $DIBS_DB, else a file in this folder.
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
	return open.Options{Schema: a.schema, Prefix: a.prefix, Program: a.applicationName, Conns: a.conns}
}

// jobTable has the methods for commands that also work on an adopted table.
type jobTable interface {
	dibs.Store
	jobReader
	Requeue(ctx context.Context, ids []int64) ([]int64, error)
	Queues(ctx context.Context, names ...string) ([]dibs.Queue, error)
	Stats(ctx context.Context) ([]dibs.QueueStats, error)
	Close() error
}

type jobReader interface {
	Get(ctx context.Context, id int64) (*dibs.RawJob, error)
	List(ctx context.Context, f dibs.Filter) (dibs.Page, error)
	Wait(ctx context.Context, id int64) (*dibs.RawJob, error)
}

// open opens dibs' own tables, and creates a missing SQLite file.
func (a *app) open(ctx context.Context) (dibs.Database, error) {
	path, _, err := open.Place(a.dbURL())
	missing := err == nil && path != "" && !hasContent(path)
	db, err := open.Database(ctx, a.dbURL(), a.options())
	a.newFile = missing && err == nil
	return db, err
}

// openExisting opens dibs' own tables for verbs that make no sense in an empty database.
// A wrong path must be an error there; it must not create a file or tables.
func (a *app) openExisting(ctx context.Context) (dibs.Database, error) {
	o := a.options()
	o.Existing = true
	return open.Database(ctx, a.dbURL(), o)
}

// withDatabase runs f on the database and closes it.
func (a *app) withDatabase(ctx context.Context, f func(dibs.Database) error) error {
	db, err := a.open(ctx)
	return use(db, err, f)
}

// withExistingDatabase is withDatabase with openExisting.
func (a *app) withExistingDatabase(ctx context.Context, f func(dibs.Database) error) error {
	db, err := a.openExisting(ctx)
	return use(db, err, f)
}

// withTable runs f on the adopted table of --table, or else on dibs' own existing tables.
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

// withNewTable is withTable, but creates dibs' own tables if the SQLite file does not exist. It
// does not in an existing file: that may hold an adopted table, and --table be forgotten.
func (a *app) withNewTable(ctx context.Context, f func(jobTable) error) error {
	if path, _, err := open.Place(a.dbURL()); a.table != "" || err != nil || path != "" && hasContent(path) {
		return a.withTable(ctx, f)
	}
	return a.withDatabase(ctx, func(db dibs.Database) error { return f(db) })
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
