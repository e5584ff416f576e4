// Package mysql keeps dibs' jobs in a database of a MariaDB server, 10.6 or later.
//
// Any number of processes on any number of machines may share it. Transactions are READ COMMITTED and short, and no two
// wait for each other: claims pass over the rows that others have locked.
package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Options of Open. The zero value is the default.
type Options struct {
	// Prefix of the tables' names, letters, digits and underscores. Default "dibs_".
	Prefix string
	// MaxConns is how many connections the store uses at once for its own calls. Default 20.
	MaxConns int
	// Existing makes Open fail with ErrNoTables, and change nothing, where it would make the first tables.
	Existing bool
	// Migrated, if not nil, is called by Migrate with the schema's new version and the names
	// of the migrations that it has run: none if there was nothing to do.
	Migrated func(version int, names []string)

	through func(sqldriver.Connector) sqldriver.Connector // what tests put between the store and the driver
}

// ErrNoTables is the error for a database without dibs' tables in which Open may not make them. It is a
// dibs.ErrSchema.
var ErrNoTables = fmt.Errorf("%w: the database has no tables of dibs", dibs.ErrSchema)

// Store is a database of a server with dibs' tables, as Open makes it. It implements admin.Database.
type Store struct {
	rows      *rowstore.Store // makes the calls that decide in Go (database.go)
	sql       *statements
	nodes     []*node // with the pools for the store's own calls
	own       string  // a key that no other store has
	callers   *sql.DB
	identity  string // of the database, wherever it is
	idStep    int64  // by how much an id is greater than the one before in one insert
	clock     clock
	cluster   bool // the server is a node of a Galera cluster: see cluster.go
	version   string
	clusterID string
	watching  sync.WaitGroup // of nodes that are away
	ended     context.Context
	end       context.CancelFunc
	upkeep    upkeep
	closed    atomic.Bool
	closing   sync.Once
	making    sync.Mutex     // held while rows of turns and keys are made
	waiting   chan struct{}  // has an element for each call that waits for unique keys
	ending    sync.WaitGroup // transactions beside others that are being rolled back
}

var _ admin.Database = (*Store)(nil)

// Open opens the database at an address as the driver writes it, user:password@tcp(host:port)/database, and makes or
// upgrades dibs' tables in it. The parameter pool_max_conns of the address overrides Options.MaxConns.
func Open(ctx context.Context, address string, o Options) (*Store, error) {
	s, err := open(ctx, address, &o, false)
	if err != nil {
		return nil, err
	}
	s.rows = rowstore.New(engine{s}, &s.sql.Dialect)
	s.rows.Listen(s.look)
	return s, nil
}

// open makes a store without the calls on it.
func open(ctx context.Context, address string, o *Options, migrating bool) (*Store, error) {
	if err := checks.Context(ctx); err != nil {
		return nil, err
	}
	if o.MaxConns < 0 {
		return nil, &dibs.InvalidError{Field: "max_conns", Reason: fmt.Sprintf("must be 0 (for 20) or more, got %d", o.MaxConns)}
	}
	text, err := load(o.Prefix)
	if err != nil {
		return nil, err
	}
	config, err := parseAddress(address)
	if err == nil {
		err = poolSize(config, &o.MaxConns)
	}
	if err != nil {
		return nil, err
	}
	s := &Store{sql: text, upkeep: upkeep{memory: rowstore.NewMemory()}, own: rand.Text()}
	s.ended, s.end = context.WithCancel(context.Background())
	text.Insert, text.Now, text.NoteTime, text.Wrap = s.insert, s.clock.now, s.clock.note, func(tx dibs.SQLTx) dibs.SQLTx { return conn{tx, apart} }
	if err = s.connect(config, o); err == nil {
		if err = s.server(ctx); err == nil {
			err = s.findCluster(ctx, config, o)
		}
		if err == nil {
			err = s.migrate(ctx, o, migrating)
		}
		if err == nil {
			err = s.identify(ctx)
		}
		if err == nil {
			err = s.readClock(ctx, time.Now())
		}
	}
	if err != nil {
		_ = s.release() // the error says what went wrong
		return nil, checks.Failed("open "+config.Addr+"/"+config.DBName, classify(err))
	}
	return s, nil
}

// identify reads who the database is, so that a caller's transaction on another one is noticed.
func (s *Store) identify(ctx context.Context) error {
	c := conn{s.any().side, s.joined()}
	if _, err := c.ExecContext(ctx, s.sql.Statements.Get("put_turn"), "database", rand.Text()); err != nil && !waitedTooLong(err) {
		return err
	}
	return rowstore.One(ctx, c, s.sql.Statements.Get("identity"), &s.identity)
}

// Close waits for the calls that have begun, and closes the connections. Transactions of DB must have ended.
func (s *Store) Close() (err error) {
	if s == nil {
		return nil
	}
	s.closing.Do(func() {
		s.closed.Store(true)
		s.rows.Close()
		err = s.release()
	})
	return err
}

func (s *Store) release() error {
	if s.end != nil {
		s.end()
	}
	s.watching.Wait()
	s.ending.Wait()
	return s.closePools()
}

func (s *Store) closePools() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.pool.Close(), n.side.Close())
	}
	if s.callers != nil {
		errs = append(errs, s.callers.Close())
	}
	return errors.Join(errs...)
}

// DB returns a pool on the same database for the caller's own tables, whose transactions are READ COMMITTED. Close closes
// it.
func (s *Store) DB() *sql.DB { return s.callers }

// ready refuses calls on a store that is nil or closed, or with a nil context.
func (s *Store) ready(ctx context.Context) error {
	switch {
	case s == nil || s.rows == nil:
		return rowstore.NotOpen()
	case s.closed.Load():
		return dibs.ErrClosed
	}
	return checks.Context(ctx)
}

// failed turns an error of the store's pools into ErrClosed once the store is closed.
func (s *Store) failed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && s.closed.Load() {
		return dibs.ErrClosed
	}
	return err
}

// read runs one statement outside of transactions.
func (s *Store) read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error {
	s.keepClock(ctx)
	for {
		n, read := s.near(ctx), false
		err := rowstore.Each(ctx, conn{n.pool, s.joined()}, s.sql.Statements.Get(statement), func(rows *sql.Rows) error {
			read = true
			return each(rows)
		}, args...)
		if err == nil || read || ctx.Err() != nil || !s.lost(n, err) {
			return s.failed(ctx, err)
		}
	}
}
