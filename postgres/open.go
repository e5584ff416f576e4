package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/session"
)

// Options for Open and Migrate. The zero value is the default.
type Options struct {
	Schema string // holds all that dibs makes; default "dibs"
	// MaxConns is how many connections Open's pool may use, besides one for wake-ups:
	// at least 2, to which 1 is raised, as one is kept free of transactions. Default: the
	// URL's pool_max_conns, else 8.
	MaxConns int
	// Pooler says that the server is reached through a transaction pooler: no
	// settings per connection, no prepared statements, and no LISTEN: other
	// processes' work is found by polling. Open notices by itself that there is a
	// pooler, and takes it for one of transactions unless the URL says pooler=session.
	Pooler bool
	// Migrated, if not nil, is told by Migrate the version that the schema has now, and
	// the names of the migrations that it has run: none if there was nothing to do.
	Migrated func(version int, names []string)
}

// Store keeps jobs in PostgreSQL. It implements dibs.Database.
type Store struct {
	pool *pgxpool.Pool
	own  bool // close the pool with the store
	// Both run a transaction each time. A call inside a transaction reads settings, makes
	// queues, admits and sweeps outside of it, by upkeep, while the transaction holds a
	// connection. So upkeep must always get another one: on the caller's pool it has a pool
	// of its own, side; on Open's, side is the pool, and held keeps one of its connections
	// free of transactions. What db sends by itself holds a connection for a moment only.
	db       conn
	upkeep   conn
	side     *pgxpool.Pool
	held     chan struct{} // an element for each transaction of transact and InTx
	slots    slots
	entitled atomic.Bool // the role has a worker's rights
	o        Options
	sql      *statements
	queues   queueCache
	bell     *bell
	merged   merged
	sweeper  sweeper
	closed   context.Context
	close    context.CancelFunc
	work     sync.WaitGroup // listener and notifier
}

var _ dibs.Database = (*Store)(nil)

// planning keeps plans independent of table statistics, which are never right for
// a queue: every statement has one good plan, along an index, and a connection keeps
// it while the tables grow from nothing to millions of rows. So the statements must
// leave no other way: a join says "id = any (array[x.id])" where the planner could
// take "id = x.id" as a reason to walk through a whole, then empty, table in the
// order of id (plans_test.go).
var planning = []session.Setting{
	{Name: "enable_seqscan", Value: "off"},
	{Name: "enable_bitmapscan", Value: "off"},
	{Name: "enable_hashjoin", Value: "off"},
	{Name: "enable_mergejoin", Value: "off"},
	{Name: "enable_material", Value: "off"},
	{Name: "plan_cache_mode", Value: "force_generic_plan"},
	{Name: "jit", Value: "off"},
}

// ownTransaction is what the store's own transactions begin with on connections that it
// has not set up.
var ownTransaction = session.InTransaction(planning)

// Open connects to the database at url (postgres://user:password@host:port/name?options).
// It fails with dibs.ErrSchema if Migrate has not been run there, and with
// dibs.ErrUnavailable if the server cannot be reached.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if err := checks.Context(ctx); err != nil {
		return nil, err
	}
	s, err := open(ctx, url, o)
	if errors.Is(err, session.ErrPooler) {
		o.Pooler = true
		s, err = open(ctx, url, o)
	}
	return s, err
}

func open(ctx context.Context, url string, o Options) (*Store, error) {
	c, err := configured(url, &o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, classify("open", err)
	}
	s, err := newStore(ctx, pool, o, true)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// leastConns lets a call in a transaction have a second connection.
const leastConns = 2

// idleFor is how long a connection lies unused before it is given back to the server.
const idleFor = 30 * time.Second

// freshFor is how long a connection lies unused before it is tried by an empty statement
// when it is needed: longer than an idle worker waits from claim to claim, which would
// pay for it with every claim.
const freshFor = 2 * time.Second

// configured is how Open's pool connects. It tells o what the URL says of a pooler.
func configured(url string, o *Options) (*pgxpool.Config, error) {
	c, pooler, err := session.Parse(url)
	if err != nil {
		return nil, invalidURL(err)
	}
	o.Pooler = o.Pooler || pooler == session.Transactions
	switch {
	case o.MaxConns < 0 || o.MaxConns > math.MaxInt32:
		return nil, &dibs.InvalidError{Field: "options.max_conns", Reason: fmt.Sprintf("must be 0 to %d, got %d", math.MaxInt32, o.MaxConns)}
	case o.MaxConns > 0:
		c.MaxConns = int32(o.MaxConns)
	case !hasParam(url, "pool_max_conns"):
		c.MaxConns = 8
	}
	c.MaxConns = max(c.MaxConns, leastConns)
	if !hasParam(url, "pool_max_conn_idle_time") {
		c.MaxConnIdleTime, c.HealthCheckPeriod = idleFor, idleFor/3
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if o.Pooler {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	} else {
		settings := append([]session.Setting{{Name: "idle_in_transaction_session_timeout", Value: "60s"}}, planning...)
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return session.SetUp(ctx, conn, pooler, settings...) }
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" && !o.Pooler {
		c.ConnConfig.RuntimeParams["application_name"] = "dibs"
	}
	c.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > freshFor }
	return c, nil
}

// New makes a store on the caller's pool, which stays the caller's to close; the
// store opens up to three more connections like the pool's. Open's own pool is the
// faster choice: its connections are told once how to plan, the caller's by every call.
// Whatever default_transaction_isolation says, the store's own transactions, InTx's
// too, are READ COMMITTED.
func New(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	if pool == nil {
		return nil, &dibs.InvalidError{Field: "pool", Reason: "is missing; postgres.Open makes one by itself"}
	}
	if err := checks.Context(ctx); err != nil {
		return nil, err
	}
	return newStore(ctx, pool, o, false)
}

// newStore makes a store; own says that the pool is Open's.
func newStore(ctx context.Context, pool *pgxpool.Pool, o Options, own bool) (*Store, error) {
	sql, err := load(o.schema())
	if err != nil {
		return nil, err
	}
	c := pool.Config()
	s := &Store{pool: pool, side: pool, own: own, o: o, sql: sql, held: make(chan struct{}, c.MaxConns-1)}
	if !own {
		c.MaxConns, c.MinConns, c.MinIdleConns, c.MaxConnIdleTime = leastConns, 0, 0, idleFor
		if s.side, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return nil, classify("open", err)
		}
		s.held = make(chan struct{}, pool.Config().MaxConns)
	}
	s.closed, s.close = context.WithCancel(context.Background())
	for at, p := range map[*conn]*pgxpool.Pool{&s.db: s.pool, &s.upkeep: s.side} {
		if own && !o.Pooler {
			*at = closable{retrying{onPgx(p, c.ConnConfig)}, s}
		} else {
			*at = planned{closable{retrying{begun{p}}, s}}
		}
	}
	if err := s.checkSchema(ctx); err != nil {
		s.close()
		if !own {
			s.side.Close()
		}
		return nil, err
	}
	s.queues.init()
	s.bell = newBell(s)
	s.initMerged()
	return s, nil
}

func (o Options) schema() string {
	if o.Schema == "" {
		return "dibs"
	}
	return o.Schema
}

// Close ends wake-ups and closes the pool that Open made.
func (s *Store) Close() error {
	if s == nil || s.closed == nil {
		return nil
	}
	if s.closed.Err() != nil {
		return nil
	}
	s.close()
	s.work.Wait()
	s.side.Close() // the pool itself if it is Open's
	return nil
}

// check refuses calls that cannot be made at all, as those after Close.
func (s *Store) check(ctx context.Context, op string) error {
	switch {
	case s == nil || s.closed == nil:
		return &dibs.InvalidError{Field: "store", Reason: "is not open; use what Open or New returns, once its error is nil"}
	case s.closed.Err() != nil:
		return checks.Failed(op, dibs.ErrClosed)
	}
	return checks.Context(ctx)
}
