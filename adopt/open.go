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
	"github.com/dibs-queue/dibs/internal/waits"
)

// Store is a store on an adopted table. It serves workers, and lists and counts rows. The
// programs that own the table insert, cancel, change and delete rows, with SQL.
type Store struct {
	plan *adopted.Plan
	do   *adopted.Statements
	db   *sql.DB

	held         held
	passed       passed
	wakers       wakers
	lastSweep    atomic.Int64 // start of the last sweep, in nanoseconds since 1970
	sweepPause   atomic.Int64 // nanoseconds from one sweep's start to the next
	lastTurnWait atomic.Int64 // last result of turnWait, in nanoseconds
	closed       atomic.Bool
	waits        waits.Group
	sweeping     sync.Mutex // a sweep holds it
	fences       sync.Mutex // see lockFences
}

var _ dibs.Store = (*Store)(nil)

// Open checks that the mapping fits its table, and returns a store on it. It does not write
// into the table. It creates the side table if the mapping needs one and it is missing.
// Closing the store does not close db.
//
// If the mapping does not fit, an InvalidError names its field.
func Open(ctx context.Context, db *sql.DB, m mapping.Mapping) (*Store, error) {
	p, err := adopted.Prepare(ctx, db, m)
	if err != nil {
		return nil, adopted.Classify("adopt", err)
	}
	s := newStore(p)
	s.db = db
	if err := s.makeSideTable(ctx); err != nil {
		return nil, adopted.Classify("create the side table "+p.SideName(), err)
	}
	err = p.Dialect.Peek(ctx, db, prepareTime, func(q adopted.Querier) error { return p.PrepareAll(ctx, q) })
	if err != nil {
		return nil, adopted.Classify("adopt", err)
	}
	return s, nil
}

// prepareTime is how long the database may take to prepare all statements.
const prepareTime = 10 * time.Second

func newStore(p *adopted.Plan) *Store {
	s := &Store{plan: p, do: p.Do}
	s.held.init()
	s.waits.Look = s.lookForEnded
	return s
}

// makeSideTable creates the side table if the mapping needs one and it is missing.
func (s *Store) makeSideTable(ctx context.Context) error {
	missing, err := s.plan.LacksSideTable(ctx, s.db)
	if !missing || err != nil {
		return err
	}
	err = s.write(ctx, func(q adopted.Querier) error { return s.plan.MakeSideTable(ctx, q) })
	if err != nil { // another worker may have created it at the same time
		if missing, refused := s.plan.LacksSideTable(ctx, s.db); !missing || refused != nil {
			return refused
		}
	}
	return err
}

// Queue returns the mapping's queue, which workers name in their claims.
func (s *Store) Queue() string { return s.plan.Mapping.Queue }

// Inside returns the plan and the database, for package advice.
func (s *Store) Inside() (*adopted.Plan, *sql.DB) { return s.plan, s.db }

// Close ends the store. It does not close its database.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.waits.Close()
	s.wakers.close()
	return nil
}

func (s *Store) usable(queue string) error {
	if s.closed.Load() {
		return dibs.ErrClosed
	}
	if queue != s.Queue() && queue != dibs.DefaultQueue {
		return adopted.Invalid("queue", "%q is not the queue of the mapping: %q", queue, s.Queue())
	}
	return nil
}

// run runs one statement and reads its rows.
func run[T any](ctx context.Context, q adopted.Querier, st *adopted.Statement, values map[string]any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := st.Query(ctx, q, values)
	if err != nil || rows == nil {
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

// mostTries is how often a transaction is begun that the server rolls back, as it and another one wait for each other.
const mostTries = 5

// write runs f in a transaction that can write. On SQLite only one of these runs at a time.
// If the server rolls it back because of a deadlock, f is called again. So f begins by forgetting what it has found.
func (s *Store) write(ctx context.Context, f func(adopted.Querier) error) error {
	for try := 1; ; try++ {
		err := adopted.InTx(ctx, s.plan.Dialect, s.db, f)
		if !adopted.Deadlocked(err) || try == mostTries || ctx.Err() != nil {
			return err
		}
	}
}

func keyText(id int64) string { return fmt.Sprintf("[%d]", id) }
