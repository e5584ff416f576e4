// Package sqlite keeps dibs' jobs in a SQLite file: in a file that the program
// already has, or in one of its own. It needs nothing but Go.
//
// Many processes may share a file on a local disk (not on a network drive).
// SQLite has one writer at a time, so each process has one goroutine that writes:
// it takes all calls that wait, runs them in one transaction, commits once and then
// answers them all. A call returns when its work is on disk.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Options of Open. The zero value is the default.
type Options struct {
	// Prefix of the tables' and indexes' names, letters, digits and underscores.
	// Default "dibs_".
	Prefix string
	// Relaxed commits without waiting for the disk (synchronous=NORMAL): a crash of
	// the process loses nothing, but a power failure may lose the last commits.
	Relaxed bool
	// BusyTimeout is how long a write waits for other processes' and callers'
	// transactions before it gives up with dibs.ErrUnavailable. Default 1 minute, at most a day.
	BusyTimeout time.Duration
	// FileMode are the permissions of a file that Open makes, less the process' umask.
	// Default 0600: only the owner may read and write. SQLite gives -wal and -shm the same.
	FileMode fs.FileMode
	// Existing makes Open fail with ErrNoTables, and change nothing, where it would make the file or the
	// first tables.
	Existing bool
	// Migrated, if not nil, is called by Migrate with the schema's new version and the names
	// of the migrations that it has run: none if there was nothing to do.
	Migrated func(version int, names []string)
}

// ErrNoTables is the error for a file without dibs' tables in which Open may not make them. It is a
// dibs.ErrSchema.
var ErrNoTables = fmt.Errorf("%w: the file has no tables of dibs", dibs.ErrSchema)

// complete checks the options, fills in their defaults, and loads the statements.
func (o *Options) complete() (*statements, error) {
	o.BusyTimeout, o.FileMode = cmp.Or(o.BusyTimeout, time.Minute), cmp.Or(o.FileMode, 0o600)
	switch {
	case o.BusyTimeout < 0 || o.BusyTimeout > 24*time.Hour:
		return nil, &dibs.InvalidError{Field: "busy_timeout", Reason: fmt.Sprintf("must be 0 (for 1 minute) to 24h, got %v", o.BusyTimeout)}
	case o.FileMode&^0o777 != 0 || o.FileMode&0o600 != 0o600:
		return nil, &dibs.InvalidError{Field: "file_mode", Reason: fmt.Sprintf("must let the owner read and write, as 0600 and 0660 do, got %#o", o.FileMode)}
	}
	return load(o.Prefix)
}

// Store is a SQLite file with dibs' tables, as Open makes it. It implements admin.Database.
type Store struct {
	rows       *rowstore.Store // makes the calls that decide in Go (database.go)
	sql        *statements
	path       string // the file's path as SQLite reports it
	file       openedFile
	writer     *writer
	readers    *sql.DB
	prepared   *rowstore.Prepared // statements prepared on readers
	watch      watch
	callerPool *sql.DB
	turn       *turn
	closing    sync.Once
}

var _ admin.Database = (*Store)(nil)

// Open opens or makes the file at path, and makes or upgrades dibs' tables in it.
// A file that holds tables, but none of dibs under this prefix, is not changed and gives
// ErrNoTables: it may be another program's, or the prefix mistyped. To add dibs' tables,
// call Migrate on it once. A schema that is newer than this program gives dibs.ErrSchema
// too; a file that cannot be used just now gives dibs.ErrUnavailable.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	text, writing, err := migrate(ctx, path, &o, false)
	if err != nil {
		return nil, err
	}
	s := &Store{sql: text, turn: newTurn()}
	s.rows = rowstore.New(engine{s}, &text.Dialect)
	if err := s.open(ctx, path, o, writing); err != nil {
		_ = s.release() // the error of open says what went wrong
		return nil, opening(path, err)
	}
	return s, nil
}

func opening(path string, err error) error {
	return checks.Failed("open "+path, classify(err))
}

func (s *Store) open(ctx context.Context, path string, o Options, writing *sql.DB) (err error) {
	dsn := dataSource(path, o)
	s.readers = openPool(dsn.reader, nil, 0)
	s.readers.SetMaxOpenConns(5) // one connection is for the wakeups
	s.prepared, s.watch = rowstore.NewPrepared(s.readers), watch{store: s, version: -1}
	s.callerPool = openPool(dsn.user, s.turn, o.BusyTimeout)
	s.rows.Listen(s.watch.look)
	if s.writer, err = startWriter(ctx, writing, s, o.BusyTimeout); err != nil {
		return err
	}
	err = retryBusy(ctx, o.BusyTimeout, func() error { // another process may be setting the file's WAL mode
		return s.writer.conn.QueryRowContext(ctx, mainFile).Scan(&s.path)
	})
	if err != nil {
		return err
	}
	s.turn.path = s.path
	s.turn.line.open(s.path)
	return s.file.open(s.path)
}

// Close waits for the calls that have begun, and closes the file. Transactions of DB
// must have ended.
func (s *Store) Close() (err error) {
	if s == nil {
		return nil
	}
	s.closing.Do(func() { err = s.release() })
	return err
}

func (s *Store) release() error {
	var errs []error
	s.rows.Close()
	s.watch.close()
	if s.writer != nil {
		errs = append(errs, s.writer.stop())
	}
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	if s.callerPool != nil {
		errs = append(errs, s.callerPool.Close())
	}
	if s.turn != nil {
		s.turn.line.close()
	}
	return errors.Join(errs...)
}

// DB returns a pool on the same file for the caller's own tables. Its transactions begin as
// writers (BEGIN IMMEDIATE) and take turns with the store's, so they neither fail as locked
// nor starve; keep them short, as all other writes wait. Read-only ones (sql.TxOptions) do
// not wait. While a writing one is open, do not call the store's writing methods in the
// same goroutine: they wait for its end. Close closes the pool.
func (s *Store) DB() *sql.DB { return s.callerPool }

// ready refuses calls on a store that is nil or closed, or with a nil context.
func (s *Store) ready(ctx context.Context) error {
	switch {
	case s == nil || s.writer == nil:
		return rowstore.NotOpen()
	case s.writer.calls.Closed():
		return dibs.ErrClosed
	}
	if err := s.file.check(); err != nil {
		return err
	}
	return checks.Context(ctx)
}

// failed turns an error of the store's pools into ErrClosed once the store is closed.
func (s *Store) failed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && s.writer.calls.Closed() {
		return dibs.ErrClosed
	}
	return err
}

// read runs one statement on a connection that only reads.
func (s *Store) read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error {
	return s.failed(ctx, rowstore.Each(ctx, s.prepared, s.sql.Statements.Get(statement), each, args...))
}
