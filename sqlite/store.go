// Package sqlite keeps dibs' jobs in a SQLite file: in one that the program
// already has, or in one of their own. It needs nothing but Go.
//
// Many processes may share a file on a local disk (not on a network drive).
// SQLite has one writer at a time, so each process has one goroutine that writes:
// it takes all calls that wait, runs them in one transaction, commits once and then
// answers them all. A call returns when its work is on disk.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
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
	// transactions before it gives up with dibs.ErrUnavailable. Default 1 minute.
	BusyTimeout time.Duration
}

// Store is a SQLite file with dibs' tables. It implements dibs.Database.
type Store struct {
	sql     *statements
	writer  *writer
	readers *sql.DB
	user    *sql.DB
	turn    *turn
	wakeups *wakeups
	txs     sync.Map // *txState by weak.Pointer[sql.Tx]
	closing sync.Once
}

var _ dibs.Database = (*Store)(nil)

// Open opens or makes the file at path, and makes or upgrades dibs' tables in it.
// A schema that is newer than this program gives dibs.ErrSchema; a file that cannot
// be used just now, dibs.ErrUnavailable.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.BusyTimeout == 0 {
		o.BusyTimeout = time.Minute
	}
	text, err := load(o.Prefix)
	if err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	s := &Store{sql: text, turn: newTurn()}
	if err := s.open(ctx, path, o); err != nil {
		_ = s.release() // the error of opening says more
		return nil, fmt.Errorf("dibs: open %s: %w", path, classify(err))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string, o Options) error {
	dsn := dataSource(path, o)
	err := retryBusy(ctx, o.BusyTimeout, func() error { return migrate(ctx, dsn.writer, s.sql) })
	if err != nil {
		return err
	}
	s.readers = openPool(dsn.reader, nil, 0)
	s.readers.SetMaxOpenConns(5) // one of them is the wakeups'
	s.user = openPool(dsn.user, s.turn, o.BusyTimeout)
	if s.wakeups, err = startWakeups(ctx, s.readers, s.sql); err != nil {
		return err
	}
	s.writer, err = startWriter(ctx, dsn.writer, s, o.BusyTimeout)
	return err
}

// Close waits for the calls that have begun, and closes the file. Transactions of DB
// must have ended.
func (s *Store) Close() (err error) {
	s.closing.Do(func() { err = s.release() })
	return err
}

func (s *Store) release() error {
	var errs []error
	if s.writer != nil {
		errs = append(errs, s.writer.stop())
	}
	if s.wakeups != nil {
		s.wakeups.close()
	}
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	if s.user != nil {
		errs = append(errs, s.user.Close())
	}
	return errors.Join(errs...)
}

// DB gives connections to the same file for the caller's own tables. Its transactions
// begin as writers (BEGIN IMMEDIATE) and take turns with the store's, so they neither
// fail as locked nor starve; keep them short, for nobody else writes meanwhile. Read-only
// ones (sql.TxOptions) wait for nobody. Do not call the store's writing methods while
// such a transaction is open in the same goroutine: they wait for it. Close closes it.
func (s *Store) DB() *sql.DB { return s.user }

// write runs f in the writer's next transaction and returns when it is durable.
func (s *Store) write(ctx context.Context, op string, f func(*session) error) error {
	if err := s.writer.call(ctx, f); err != nil {
		return wrap(op, err)
	}
	return nil
}

// Check looks for anything in the database that must not be.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	var found []string
	err := s.read(ctx, "check", func(rows *sql.Rows) error {
		var what string
		if err := rows.Scan(&what); err != nil {
			return err
		}
		found = append(found, what)
		return nil
	})
	return found, wrap("check", err)
}

// read runs one statement on a connection that only reads.
func (s *Store) read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error {
	if s.writer.closed() {
		return dibs.ErrClosed
	}
	rows, err := s.readers.QueryContext(ctx, s.sql.get(statement), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
