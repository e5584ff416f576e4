package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/session"
)

// Options for Open and Migrate. The zero value is the default.
type Options struct {
	Schema string // holds all that dibs makes; default "dibs"
	// MaxConns is how many connections Open's pool may use, besides up to two for
	// upkeep and one for wake-ups. Default: the URL's pool_max_conns, else 8.
	MaxConns int
	// Pooler says that the server is reached through a transaction pooler: no
	// settings per connection, no prepared statements, and no LISTEN: other
	// processes' work is found by polling. Open notices by itself that there is a
	// pooler, and takes it for one of transactions unless the URL says pooler=session.
	Pooler bool
}

// Store keeps jobs in PostgreSQL. It implements dibs.Database.
type Store struct {
	pool *pgxpool.Pool
	own  bool // close the pool with the store
	// Both run a transaction each time. upkeep has connections of its own, so that a
	// call inside a caller's transaction, which holds one of the pool's, can read
	// settings, make queues, admit and sweep outside of it even if the pool is used up.
	db      conn
	upkeep  conn
	side    *pgxpool.Pool
	o       Options
	sql     *statements
	queues  queueCache
	bell    *bell
	merged  merged
	sweeper sweeper
	claimed sync.Map // what transactions have claimed: see tx.go
	closed  context.Context
	close   context.CancelFunc
	work    sync.WaitGroup // listener and notifier
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
	s, err := newStore(ctx, pool, o, !o.Pooler)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.own = true
	return s, nil
}

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
	case o.MaxConns > 0:
		c.MaxConns = int32(o.MaxConns)
	case !hasParam(url, "pool_max_conns"):
		c.MaxConns = 8
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
	return newStore(ctx, pool, o, false)
}

// newStore makes a store; prepared says that its connections plan as they should.
func newStore(ctx context.Context, pool *pgxpool.Pool, o Options, prepared bool) (*Store, error) {
	sql, err := load(o.schema())
	if err != nil {
		return nil, err
	}
	c := pool.Config()
	c.MaxConns, c.MinConns, c.MinIdleConns = 2, 0, 0
	side, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, classify("open", err)
	}
	s := &Store{pool: pool, side: side, o: o, sql: sql}
	if prepared {
		s.db, s.upkeep = retrying{onPgx(pool, c.ConnConfig)}, retrying{onPgx(side, c.ConnConfig)}
	} else {
		s.db, s.upkeep = planned{retrying{begun{pool}}}, planned{retrying{begun{side}}}
	}
	s.closed, s.close = context.WithCancel(context.Background())
	if err := s.checkSchema(ctx); err != nil {
		s.close()
		side.Close()
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
	if s.closed.Err() != nil {
		return nil
	}
	s.close()
	s.work.Wait()
	s.side.Close()
	if s.own {
		s.pool.Close()
	}
	return nil
}

// check fails for calls after Close.
func (s *Store) check(op string) error {
	if s.closed.Err() != nil {
		return fmt.Errorf("dibs: %s: %w", op, dibs.ErrClosed)
	}
	return nil
}
