// Package mysql keeps dibs' jobs in a database of a MariaDB server, 10.6 or later.
//
// Any number of processes on any number of machines may share it. Transactions are READ COMMITTED and short, and no two
// wait for each other: claims pass over the rows that others have locked.
package mysql

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/go-sql-driver/mysql"

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
	rows     *rowstore.Store // makes the calls that decide in Go (database.go)
	sql      *statements
	pool     *sql.DB // for the store's own calls
	side     *sql.DB // for turns and keys that are new: see turns.go
	callers  *sql.DB
	identity string // of the database, wherever it is
	idStep   int64  // by how much an id is greater than the one before in one insert
	clock    clock
	cluster  bool   // the server is a node of a Galera cluster: see cluster.go
	upkeep   upkeep
	closed   atomic.Bool
	closing  sync.Once
	making   sync.Mutex    // held while rows of turns and keys are made
	waiting  chan struct{} // has an element for each call that waits for unique keys
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
	s := &Store{sql: text, upkeep: upkeep{memory: rowstore.NewMemory()}}
	text.Insert, text.Now, text.NoteTime, text.Wrap = s.insert, s.clock.now, s.clock.note, func(tx dibs.SQLTx) dibs.SQLTx { return conn{tx, false} }
	text.Concurrent = &rowstore.Concurrent{Turn: s.turn, LockKeys: s.lockKeys, Counted: true, Inbox: true, Patience: 15 * time.Second, LookPart: 20}
	if err = s.connect(config, o); err == nil {
		if err = s.server(ctx); err == nil && s.cluster {
			err = s.reconnect(config, o)
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

func parseAddress(address string) (*driver.Config, error) {
	config, err := driver.ParseDSN(address)
	if err != nil {
		return nil, &dibs.InvalidError{Field: "address", Reason: "must be user:password@tcp(host:port)/database"}
	}
	if config.DBName == "" {
		return nil, &dibs.InvalidError{Field: "address", Reason: "names no database; give user:password@tcp(host:port)/database"}
	}
	return config, nil
}

// poolSize reads the parameter pool_max_conns of an address, which overrides MaxConns. The driver knows no such parameter.
func poolSize(config *driver.Config, size *int) error {
	given, ok := config.Params["pool_max_conns"]
	if !ok {
		return nil
	}
	delete(config.Params, "pool_max_conns")
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return &dibs.InvalidError{Field: "pool_max_conns", Reason: fmt.Sprintf("must be 1 or more, got %q", given)}
	}
	*size = n
	return nil
}

// lockWait is how long a statement of the store waits for a lock, in seconds. Then the call is made again.
const lockWait = 5

// idleWithin is for how many seconds a transaction of the store may do nothing. Then the server ends its connection: the process
// stands still, perhaps as its machine does, and nobody gets what it has locked.
const idleWithin = 10

// connect makes the pools. They connect when they are first used.
func (s *Store) connect(config *driver.Config, o *Options) error {
	most := o.MaxConns
	own := config.Clone()
	own.InterpolateParams, own.MultiStatements, own.ParseTime = true, true, false
	own.MaxAllowedPacket = 0         // each connection asks the server; a statement that is larger than that is sent in parts
	own.Logger = &driver.NopLogger{} // calls return the errors
	if own.Params == nil {
		own.Params = map[string]string{}
	}
	own.Params["sql_mode"] = "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'"
	own.Params["innodb_lock_wait_timeout"] = fmt.Sprint(lockWait)
	own.Params["tx_isolation"] = "'READ-COMMITTED'"
	own.Params["idle_transaction_timeout"] = cmp.Or(own.Params["idle_transaction_timeout"], fmt.Sprint(idleWithin))
	own.Params["group_concat_max_len"] = "67108864"
	own.Params["optimizer_switch"] = "'exists_to_in=off'" // else an exists reads a whole index of jobs where it could look up one
	if s.cluster {
		own.Params["wsrep_sync_wait"] = syncWait
	}
	side := own.Clone()
	side.Params["innodb_lock_wait_timeout"] = "0"
	callers := own.Clone()
	callers.MultiStatements = false
	delete(callers.Params, "sql_mode")
	delete(callers.Params, "innodb_lock_wait_timeout")
	delete(callers.Params, "idle_transaction_timeout")
	for _, p := range []struct {
		to     **sql.DB
		config *driver.Config
		most   int
	}{{&s.pool, own, max(most, 0)}, {&s.side, side, 2}, {&s.callers, callers, 0}} {
		connector, err := driver.NewConnector(p.config)
		if err != nil {
			return &dibs.InvalidError{Field: "address", Reason: err.Error()}
		}
		if o.through != nil {
			connector = o.through(connector)
		}
		*p.to = sql.OpenDB(connector)
		(*p.to).SetMaxOpenConns(p.most)
		(*p.to).SetMaxIdleConns(max(p.most, 2))
	}
	if most == 0 {
		most = 20
		s.pool.SetMaxOpenConns(most)
		s.pool.SetMaxIdleConns(most)
	}
	s.waiting = make(chan struct{}, most/4)
	return nil
}

// refused are servers that speak the protocol but take no row locks, and why.
var refused = map[string]string{
	"tidb": "TiDB reads SKIP LOCKED and locks nothing, so two workers would get the same job",
	"dolt": "Dolt reads FOR UPDATE SKIP LOCKED and locks nothing, so two workers would get the same job",
}

// server refuses servers on which the promises cannot be kept, and reads what the store needs to know of others.
func (s *Store) server(ctx context.Context) error {
	var version, comment string
	if err := s.pool.QueryRowContext(ctx, "select @@version, @@version_comment, @@auto_increment_increment").Scan(&version, &comment, &s.idStep); err != nil {
		return err
	}
	if err := suitable(version, comment); err != nil {
		return err
	}
	return s.findCluster(ctx, version)
}

func suitable(version, comment string) error {
	for name, why := range refused {
		if strings.Contains(strings.ToLower(version+" "+comment), name) {
			return &dibs.InvalidError{Field: "address", Reason: "names a server on which dibs cannot keep its promises: " + why}
		}
	}
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	if err != nil || !strings.Contains(version, "MariaDB") || major < 10 || major == 10 && minor < 6 {
		return &dibs.InvalidError{Field: "address", Reason: fmt.Sprintf("names a server of version %s; dibs needs MariaDB 10.6 or later", version)}
	}
	return nil
}

// identify reads who the database is, so that a caller's transaction on another one is noticed.
func (s *Store) identify(ctx context.Context) error {
	c := conn{s.side, true}
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
	var errs []error
	for _, pool := range []*sql.DB{s.pool, s.side, s.callers} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
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
	return s.failed(ctx, rowstore.Each(ctx, conn{s.pool, true}, s.sql.Statements.Get(statement), each, args...))
}
