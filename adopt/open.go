package adopt

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Store is a store on an adopted table: what a worker needs, and lists and counts. Rows come
// from the programs that own the table, and these cancel, change and delete them, with SQL.
type Store struct {
	plan *adopted.Plan
	do   *adopted.Statements
	db   *sql.DB

	held    held
	wakers  wakers
	swept   atomic.Int64 // when the last sweep began, in nanoseconds of time.Now
	sweepIn atomic.Int64 // how long after that the next is due
	turns   atomic.Int64 // how long the last claim waited for others' turns
	closed  atomic.Bool
	sweeper sync.Mutex // held by the sweep under way
	moving  sync.Mutex // see alone
}

var _ dibs.Store = (*Store)(nil)

// Open checks that the mapping fits its table, and returns a store on it. It writes
// nothing into the table, and makes the side table if the mapping wants one and it
// is not there. db is the caller's: Close leaves it open.
//
// What does not fit is an InvalidError that names the field of the mapping.
func Open(ctx context.Context, db *sql.DB, m mapping.Mapping) (*Store, error) {
	p, err := adopted.Prepare(ctx, db, m)
	if err != nil {
		return nil, adopted.Classify("adopt", err)
	}
	s := newStore(p)
	s.db = db
	if err := s.makeSideTable(ctx); err != nil {
		return nil, adopted.Classify("make the side table "+p.Side(), err)
	}
	err = p.Dialect.Peek(ctx, db, prepareTime, func(q adopted.Querier) error { return p.PrepareAll(ctx, q) })
	if err != nil {
		return nil, adopted.Classify("adopt", err)
	}
	return s, nil
}

// prepareTime is how long the database may take to prepare all statements.
const prepareTime = 2 * time.Second

func newStore(p *adopted.Plan) *Store {
	s := &Store{plan: p, do: p.Do}
	s.held.init()
	return s
}

// makeSideTable makes the side table, if the mapping wants one and it is not there.
func (s *Store) makeSideTable(ctx context.Context) error {
	missing, err := s.plan.LacksSideTable(ctx, s.db)
	if !missing || err != nil {
		return err
	}
	err = s.write(ctx, func(q adopted.Querier) error { return s.plan.MakeSideTable(ctx, q) })
	if err != nil { // two that make it at once can collide
		if missing, refused := s.plan.LacksSideTable(ctx, s.db); !missing || refused != nil {
			return refused
		}
	}
	return err
}

// Queue is what workers call the table: the mapping's queue.
func (s *Store) Queue() string { return s.plan.Mapping.Queue }

// Inside is for package advice, which looks at what the store has compiled.
func (s *Store) Inside() (*adopted.Plan, *sql.DB) { return s.plan, s.db }

// Close ends the store. The database that it was opened with stays open.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.wakers.close()
	return nil
}

func (s *Store) usable(queue string) error {
	if s.closed.Load() {
		return dibs.ErrClosed
	}
	if queue != s.Queue() && queue != dibs.DefaultQueue {
		return adopted.Invalid("queue", "%q is not what the mapping calls its rows: %q", queue, s.Queue())
	}
	return nil
}

// run runs one statement by itself and reads its rows.
func run[T any](ctx context.Context, q adopted.Querier, st *adopted.Statement, values map[string]any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := q.QueryContext(ctx, st.Text, st.Args(values)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// write runs f where it may write: in a transaction, for which SQLite has one writer at a time.
func (s *Store) write(ctx context.Context, f func(adopted.Querier) error) error {
	return adopted.InTx(ctx, s.plan.Dialect, s.db, f)
}

func keyText(id int64) string { return fmt.Sprintf("[%d]", id) }
