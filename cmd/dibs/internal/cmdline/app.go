// Package cmdline is what the verbs of the command share: flags, arguments, exit codes and the open database.
package cmdline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

// App is one run of the command: its terminal, and the flags that every verb has.
type App struct {
	term.Terminal

	DBFlag open.URL // --db
	Schema string   // --schema
	Prefix string   // --prefix
	pooler bool     // --pooler
	Table  string   // --table: file with the mapping of an adopted table

	ApplicationName string // name of this program's connections to PostgreSQL
	Conns           int    // number of connections to PostgreSQL; 0: the default

	Adopted *AdoptedTable // open adopted table; nil: dibs' own tables
	newFile bool          // open has made the SQLite file

	Running bool // the arguments are valid, so a failure is no usage error
}

// NewApp sets up a run of the command on streams that may be anything that is read and written.
func NewApp(stdin io.Reader, stdout, stderr io.Writer) *App {
	a := &App{Schema: os.Getenv("DIBS_SCHEMA"), Prefix: os.Getenv("DIBS_PREFIX")}
	a.Terminal.Attach(stdin, stdout, stderr)
	return a
}

// Run runs the command and returns its exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	unwritten := a.WatchOutput(stop)
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch lost := unwritten(); {
	case errors.Is(lost, syscall.EPIPE) && !errors.As(err, new(*UnprintedJobs)):
		return ExitInterrupted
	case err == nil && lost != nil:
		err = fmt.Errorf("stdout could not be written, though all else was done: %w", lost)
	case err == nil:
		return ExitOK
	}
	if !a.Running {
		err = suggestion(err)
		err = &UsageError{Err: err, Command: cmd.CommandPath()}
	}
	return a.Fail(ctx, err)
}

// URL returns the database to use: --db, else $DIBS_DB, else a file in this folder.
func (a *App) URL() open.URL {
	if a.DBFlag != "" {
		return a.DBFlag
	}
	if env := os.Getenv("DIBS_DB"); env != "" {
		return open.URL(env)
	}
	return open.Default
}

func (a *App) Options() open.Options {
	return open.Options{Schema: a.Schema, Prefix: a.Prefix, Program: a.ApplicationName, Conns: a.Conns}
}

// JobTable has the methods for commands that also work on an adopted table.
type JobTable interface {
	dibs.Store
	jobReader
	Queues(ctx context.Context, names ...string) ([]dibs.Queue, error)
	Stats(ctx context.Context) ([]admin.QueueStats, error)
	Close() error
}

type jobReader interface {
	Get(ctx context.Context, id int64) (*dibs.RawJob, error)
	List(ctx context.Context, f admin.Filter) (admin.Page, error)
	Wait(ctx context.Context, id int64) (*dibs.RawJob, error)
}

// Open opens dibs' own tables, and creates a missing SQLite file.
func (a *App) Open(ctx context.Context) (admin.Database, error) {
	path, _, err := open.Place(a.URL())
	missing := err == nil && path != "" && !hasContent(path)
	db, err := open.Database(ctx, a.URL(), a.Options())
	a.newFile = missing && err == nil
	return db, err
}

// OpenExisting opens dibs' own tables for verbs that make no sense in an empty database.
// A wrong path must be an error there; it must not create a file or tables.
func (a *App) OpenExisting(ctx context.Context) (admin.Database, error) {
	o := a.Options()
	o.Existing = true
	return open.Database(ctx, a.URL(), o)
}

// WithDatabase runs f on the database and closes it.
func (a *App) WithDatabase(ctx context.Context, f func(admin.Database) error) error {
	db, err := a.Open(ctx)
	return use(db, err, f)
}

// WithExistingDatabase is WithDatabase with OpenExisting.
func (a *App) WithExistingDatabase(ctx context.Context, f func(admin.Database) error) error {
	db, err := a.OpenExisting(ctx)
	return use(db, err, f)
}

// WithTable runs f on the adopted table of --table, or else on dibs' own existing tables.
func (a *App) WithTable(ctx context.Context, f func(JobTable) error) error {
	db, err := a.openJobTable(ctx)
	return use(db, err, f)
}

func (a *App) openJobTable(ctx context.Context) (JobTable, error) {
	if a.Table != "" {
		return a.OpenTable(ctx)
	}
	return a.OpenExisting(ctx)
}

// WithNewTable is WithTable, but creates dibs' own tables if the SQLite file does not exist. It
// does not in an existing file: that may hold an adopted table, and --table be forgotten.
func (a *App) WithNewTable(ctx context.Context, f func(JobTable) error) error {
	if path, _, err := open.Place(a.URL()); a.Table != "" || err != nil || path != "" && hasContent(path) {
		return a.WithTable(ctx, f)
	}
	return a.WithDatabase(ctx, func(db admin.Database) error { return f(db) })
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
