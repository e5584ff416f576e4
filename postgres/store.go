// Package postgres keeps dibs' jobs in PostgreSQL, version 13 and later.
//
// The statements are in sql/, one per file; each says why it is correct when many
// run at once. docs/design/0001-storage.md explains the tables.
//
// Behind a transaction pooler such as pgbouncer set [Options.Pooler].
package postgres

import (
	"cmp"
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
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/combine"
	"github.com/dibs-queue/dibs/internal/rest"
	"github.com/dibs-queue/dibs/internal/session"
	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/dibs-queue/dibs/internal/waits"
)

// Options for Open and Migrate. The zero value is the default.
type Options struct {
	Schema string // the schema of all that dibs makes; default "dibs"
	// MaxConns is how many connections Open's pool may use, besides one for wakeups. One is
	// kept free of transactions, so 1 counts as 2. Default: the URL's pool_max_conns, else 8.
	MaxConns int
	// Pooler says that the server is reached through a transaction pooler. Then dibs uses no
	// settings per connection, no prepared statements and no LISTEN, and finds the work of
	// other processes by polling. Open detects a pooler, and takes it for a transaction
	// pooler unless the URL says pooler=session.
	Pooler bool
	// Migrated, if not nil, is called by Migrate with the schema's new version and the names
	// of the migrations that it has run: none if there was nothing to do.
	Migrated func(version int, names []string)
}

// Store keeps jobs in PostgreSQL. It implements admin.Database.
type Store struct {
	pool     *pgxpool.Pool
	ownsPool bool // Close also closes the pool
	// db and upkeep make a transaction for each run. A call in a caller's transaction reads
	// settings, makes queues, admits and sweeps outside of it, by upkeep, while the transaction
	// holds a connection. So upkeep must always get another one: with a caller's pool it has
	// the sidePool; with Open's, sidePool is the pool itself, and txSlots keeps one of its
	// connections free of transactions. A run of db holds a connection for a moment only.
	db            conn
	upkeep        conn
	sidePool      *pgxpool.Pool
	keyTurns      combine.Keyed[uniqueKey, chan struct{}] // a call that has a key's turn has put an element into the key's channel
	txSlots       chan struct{}                           // one element for each open transaction of transact and InTx
	slots         slots
	rightsChecked atomic.Bool // the role is known to have a worker's rights
	o             Options
	sql           *statements
	wideFrom      int // payloads of this many bytes are kept apart: see the constant
	queues        queueCache
	around        checks.Middleware
	bell          *bell
	rests         rest.Claims // pauses between claims from queues without marks
	merged        merged
	batches       atomic.Pointer[func(call string, calls int)] // the function given to ObserveBatches, if any
	sweeper       sweeper
	waits         waits.Group
	timer         *ticks.Timer // runs tick at the next tick of a schedule
	tends         atomic.Bool  // this process has workers, so it also looks after schedules
	closed        context.Context
	close         context.CancelFunc
	goroutines    sync.WaitGroup // goroutines that listen, notify, and give back connections
}

var _ admin.Database = (*Store)(nil)

// planning keeps plans independent of table statistics, which are never right for
// a queue: every statement has one good plan, along an index, and a connection keeps
// it while the tables grow from nothing to millions of rows. So the statements must
// allow no other plan: for "id = x.id" in a join the planner could choose to read a whole
// table, empty at that time, in the order of id; for "id = any (array[x.id])" it cannot
// (plans_test.go).
var planning = []session.Setting{
	{Name: "enable_seqscan", Value: "off"},
	{Name: "enable_bitmapscan", Value: "off"},
	{Name: "enable_hashjoin", Value: "off"},
	{Name: "enable_mergejoin", Value: "off"},
	{Name: "enable_material", Value: "off"},
	{Name: "plan_cache_mode", Value: "force_generic_plan"},
	{Name: "jit", Value: "off"},
}

// ownTransaction is the first statement of the store's transactions on connections that it
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
	c, err := poolConfig(url, &o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, wrap("open", err)
	}
	s, err := newStore(ctx, pool, o, true)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// leastConns is one connection for a transaction and one for the upkeep of calls in it.
const leastConns = 2

// idleFor is how long a connection is unused before it is closed.
const idleFor = 30 * time.Second

// freshFor is how long a connection may be unused before it is tested with an empty
// statement. It is longer than an idle worker's pause between claims, so these claims cost no
// tests.
const freshFor = 2 * time.Second

// poolConfig returns the settings of Open's pool. It sets o.Pooler if the URL names one.
func poolConfig(url string, o *Options) (*pgxpool.Config, error) {
	c, pooler, err := session.Parse(url)
	if err != nil {
		return nil, err
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
	// Closing a connection waits for the server's answer, which may never come if the connection has fallen silent.
	c.BeforeClose = func(conn *pgx.Conn) { _ = conn.PgConn().Conn().SetDeadline(time.Now().Add(time.Second)) }
	c.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > freshFor }
	return c, nil
}

// New makes a store on the caller's pool, which the caller has to close; the store opens up
// to three more connections like the pool's. A store from Open is faster: its connections
// are set up once for dibs' plans, the caller's in every call. The store's own
// transactions, InTx's too, are READ COMMITTED whatever default_transaction_isolation says.
func New(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	if pool == nil {
		return nil, &dibs.InvalidError{Field: "pool", Reason: "is missing; postgres.Open makes one by itself"}
	}
	if err := checks.Context(ctx); err != nil {
		return nil, err
	}
	return newStore(ctx, pool, o, false)
}

// newStore makes a store; own is true for Open's pool.
func newStore(ctx context.Context, pool *pgxpool.Pool, o Options, own bool) (*Store, error) {
	sql, err := load(o.schema())
	if err != nil {
		return nil, err
	}
	c := pool.Config()
	s := &Store{pool: pool, sidePool: pool, ownsPool: own, o: o, sql: sql, wideFrom: wideFrom, txSlots: make(chan struct{}, c.MaxConns-1)}
	if !own {
		c.MaxConns, c.MinConns, c.MinIdleConns, c.MaxConnIdleTime = leastConns, 0, 0, idleFor
		if s.sidePool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return nil, wrap("open", err)
		}
		s.txSlots = make(chan struct{}, pool.Config().MaxConns)
	}
	s.closed, s.close = context.WithCancel(context.Background())
	for at, p := range map[*conn]*pgxpool.Pool{&s.db: s.pool, &s.upkeep: s.sidePool} {
		if own && !o.Pooler {
			*at = poolConn{onPgx(p, c.ConnConfig), s}
		} else {
			*at = planningConn{poolConn{readCommitted{p}, s}}
		}
	}
	if err := s.checkSchema(ctx); err != nil {
		s.close()
		if !own {
			s.sidePool.Close()
		}
		return nil, err
	}
	s.queues.init()
	s.timer = ticks.NewTimer(s.closed, s.tick)
	s.bell = newBell(s)
	s.initMerged()
	s.waits.Look = s.upkeepReads().Ended
	return s, nil
}

func (o Options) schema() string { return cmp.Or(o.Schema, "dibs") }

// Close ends wakeups and closes the pool that Open made.
func (s *Store) Close() error {
	if s == nil || s.closed == nil || s.closed.Err() != nil {
		return nil
	}
	s.sweeper.settler.wait(settleWait)
	s.close()
	s.waits.Close()
	s.timer.Stop()
	s.goroutines.Wait()
	s.sidePool.Close() // with Open this is the pool itself
	return nil
}

// ready refuses calls on a store that is nil or closed, with a nil context, or with arguments that were refused.
func (s *Store) ready(ctx context.Context, op string, arguments ...error) error {
	switch {
	case s == nil || s.closed == nil:
		return &dibs.InvalidError{Field: "store", Reason: "is not open; use what Open or New returns, once its error is nil"}
	case s.closed.Err() != nil:
		return checks.Failed(op, dibs.ErrClosed)
	}
	return cmp.Or(checks.Context(ctx), cmp.Or(arguments...))
}
