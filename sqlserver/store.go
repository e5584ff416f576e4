// Package sqlserver keeps dibs' jobs in a database of Microsoft SQL Server, 2019 or later, or of Azure SQL.
//
// It is experimental: its makers have not run it on a SQL Server. [Proven] says so, and docs/sqlserver.md what is proven
// elsewhere.
//
// Any number of processes on any number of machines may share a database. Transactions are READ COMMITTED and short, and no two
// wait for each other: claims pass over the rows that others have locked. The database must have READ_COMMITTED_SNAPSHOT on.
package sqlserver

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Options of Open. The zero value is the default.
type Options struct {
	// Prefix of the tables' names, letters, digits and underscores. Default "dibs_". The tables are in the default
	// schema of the user.
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
	side     *sql.DB // for keys that are new: see turns.go
	callers  *sql.DB
	identity string // of the database, wherever it is
	clock    clock
	upkeep   upkeep
	closed   atomic.Bool
	closing  sync.Once
}

var _ admin.Database = (*Store)(nil)

// Proven says how far the store has been tried on a SQL Server. It is empty once the tests run on one at each commit.
const Proven = "SQL Server: experimental; its makers have not run it on a SQL Server. " +
	"`dibs torture --db sqlserver://…` tells in two minutes whether it keeps its promises on yours."

// warned has Open say that once in a process.
var warned sync.Once

// Open opens the database at a URL as the driver writes it, sqlserver://USER:PASSWORD@HOST:1433?database=NAME, and makes or
// upgrades dibs' tables in it. The parameter pool_max_conns of the URL overrides Options.MaxConns.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := open(ctx, url, &o, false)
	if err != nil {
		return nil, err
	}
	s.rows = rowstore.New(engine{s}, &s.sql.Dialect)
	s.rows.Listen(s.look)
	return s, nil
}

// open makes a store without the calls on it.
func open(ctx context.Context, url string, o *Options, migrating bool) (*Store, error) {
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
	config, err := parseURL(url)
	if err == nil {
		err = poolSize(config, &o.MaxConns)
	}
	if err != nil {
		return nil, err
	}
	warned.Do(func() { slog.WarnContext(ctx, Proven) })
	s := newStore(text)
	s.connect(config, o)
	if err = s.server(ctx); err == nil {
		err = s.migrate(ctx, o, migrating)
	}
	if err == nil {
		err = rowstore.One(ctx, conn{s.pool, true}, text.Statements.Get("identity"), &s.identity)
	}
	if err == nil {
		err = s.readClock(ctx, time.Now())
	}
	if err != nil {
		_ = s.release() // the error says what went wrong
		return nil, checks.Failed("open "+config.Host+"/"+config.Database, classify(err))
	}
	return s, nil
}

func newStore(text *statements) *Store {
	s := &Store{sql: text, upkeep: upkeep{memory: rowstore.NewMemory()}}
	text.Insert, text.Now, text.NoteTime, text.Wrap = s.insert, s.clock.now, s.clock.note, func(tx dibs.SQLTx) dibs.SQLTx { return conn{tx, false} }
	text.Concurrent = &rowstore.Concurrent{Turn: s.turn, LockKeys: s.lockKeys, Counted: true, Patience: 15 * time.Second, LookPart: 20}
	return s
}

func parseURL(url string) (*msdsn.Config, error) {
	config, err := msdsn.Parse(url)
	if err != nil {
		return nil, &dibs.InvalidError{Field: "url", Reason: "must be sqlserver://USER:PASSWORD@HOST:1433?database=NAME"} // the driver's error may have the password
	}
	if config.Database == "" {
		return nil, &dibs.InvalidError{Field: "url", Reason: "names no database; give sqlserver://USER:PASSWORD@HOST:1433?database=NAME"}
	}
	if config.ReadOnlyIntent {
		return nil, &dibs.InvalidError{Field: "url", Reason: "asks for a replica that can only be read; leave out ApplicationIntent"}
	}
	if _, given := config.Parameters["app name"]; !given {
		config.AppName = "dibs"
	}
	return &config, nil
}

// poolSize reads the parameter pool_max_conns of a URL, which overrides MaxConns. The driver does not know it.
func poolSize(config *msdsn.Config, size *int) error {
	given, ok := config.Parameters["pool_max_conns"]
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return &dibs.InvalidError{Field: "pool_max_conns", Reason: fmt.Sprintf("must be 1 or more, got %q", given)}
	}
	*size = n
	return nil
}

// idleFor is after what time a connection that nobody uses is closed: gateways, such as Azure's, drop it without a word later.
const idleFor = 5 * time.Minute

// connect makes the pools. They connect when they are first used.
func (s *Store) connect(config *msdsn.Config, o *Options) {
	most := o.MaxConns
	if most == 0 {
		most = 20
	}
	for _, p := range []struct {
		to   **sql.DB
		most int
	}{{&s.pool, most}, {&s.side, 2}, {&s.callers, 0}} {
		var connector sqldriver.Connector = mssql.NewConnectorConfig(*config)
		if o.through != nil {
			connector = o.through(connector)
		}
		*p.to = sql.OpenDB(connector)
		(*p.to).SetMaxOpenConns(p.most)
		(*p.to).SetMaxIdleConns(max(p.most, 2))
		(*p.to).SetConnMaxIdleTime(idleFor)
	}
}

// facts are what a server says of itself and of a database.
type facts struct {
	version   int // major; it says nothing of Azure's services
	edition   int // of the engine
	babelfish bool
	database  string
	level     int  // the compatibility level
	versions  bool // READ_COMMITTED_SNAPSHOT is on
}

const readFacts = `select
  coalesce(convert(int, serverproperty('ProductMajorVersion')), 0),
  coalesce(convert(int, serverproperty('EngineEdition')), 0),
  coalesce(convert(int, serverproperty('babelfish')), 0),
  d.name,
  convert(int, d.compatibility_level),
  convert(int, d.is_read_committed_snapshot_on)
from sys.databases d
where d.database_id = db_id()`

// server refuses servers and databases on which the promises cannot be kept.
func (s *Store) server(ctx context.Context) error {
	var f facts
	if err := rowstore.One(ctx, conn{s.pool, true}, readFacts, &f.version, &f.edition, &f.babelfish, &f.database, &f.level, &f.versions); err != nil {
		return err
	}
	return f.suitable()
}

// The editions of the engine that have no version of their own.
const (
	azureDatabase, azureInstance = 5, 8
	synapse, synapseServerless   = 6, 11
)

func (f facts) suitable() error {
	refuse := func(why string) error { return &dibs.InvalidError{Field: "url", Reason: "names " + why} }
	azure := f.edition == azureDatabase || f.edition == azureInstance
	switch {
	case f.babelfish:
		return refuse("a server on which dibs cannot keep its promises: Babelfish ignores the hints by which claims lock jobs, so two workers would get the same one; use package postgres")
	case f.edition == synapse || f.edition == synapseServerless:
		return refuse("a server on which dibs cannot keep its promises: Synapse does not lock rows")
	case !azure && f.version < 15:
		return refuse(fmt.Sprintf("a server of version %d; dibs needs SQL Server 2019, which is 15, or later", f.version))
	case f.level < 140:
		return refuse(fmt.Sprintf("a database of compatibility level %d; dibs needs 140 or more: alter database %s set compatibility_level = 150", f.level, quoted(f.database)))
	case !f.versions:
		return refuse(fmt.Sprintf("a database in which reads wait for writers; have it keep versions, once: alter database %s set read_committed_snapshot on with rollback immediate", quoted(f.database)))
	}
	return nil
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

// DB returns a pool on the same database for the caller's own tables. Name the isolation READ COMMITTED at each begin of a
// transaction for SQLTx. Close closes it.
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
