package adopt

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dibs-queue/dibs"
)

// Store is a store on an adopted table. It is a dibs.Database; what an adopted
// table cannot do fails with errors.ErrUnsupported: rows come from the programs
// that own the table, so Enqueue does, as do Cancel, Requeue, Edit and Prune.
type Store struct {
	plan *plan
	do   *statements
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

var _ dibs.Database = (*Store)(nil)

// Open checks that the mapping fits its table, and returns a store on it. It writes
// nothing into the table, and makes the side table if the mapping wants one and it
// is not there. db is the caller's: Close leaves it open.
//
// What does not fit is an InvalidError that names the field of the mapping.
func Open(ctx context.Context, db *sql.DB, m Mapping) (*Store, error) {
	p, err := prepare(ctx, db, m)
	if err != nil {
		return nil, classify("adopt", err)
	}
	s := &Store{plan: p, db: db}
	if s.do, err = p.statements(); err != nil {
		return nil, err
	}
	if m.SideTable {
		if err := s.makeSideTable(ctx); err != nil {
			return nil, classify("make the side table "+p.Side(), err)
		}
	}
	err = p.d.peek(ctx, db, checkTime, func(q querier) error { return p.prepareAll(ctx, q, s.do) })
	if err != nil {
		return nil, classify("adopt", err)
	}
	s.held.init()
	return s, nil
}

// prepare finds the table and checks the mapping against it, and its conditions
// with the database.
func prepare(ctx context.Context, db *sql.DB, m Mapping) (*plan, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return nil, err
	}
	if m.Table == "" {
		return nil, invalid("table", "is missing")
	}
	on, err := find(ctx, db, d, m.Table, false)
	if err != nil {
		return nil, err
	}
	p, err := compile(m, d, on)
	if err != nil {
		return nil, err
	}
	return p, p.verify(ctx, db)
}

// makeSideTable makes the side table, unless it is there.
func (s *Store) makeSideTable(ctx context.Context) error {
	there, err := s.hasSideTable(ctx)
	if there || err != nil {
		return err
	}
	err = inTx(ctx, s.plan.d, s.db, func(q querier) error { return s.makeSideTableIn(ctx, q) })
	if err != nil { // two that make it at once can collide
		if there, refused := s.hasSideTable(ctx); there || refused != nil {
			return refused
		}
	}
	return err
}

// hasSideTable refuses a side table that is somebody else's before it reads anything of it:
// the triggers of a table run with the rights of whoever writes to it.
func (s *Store) hasSideTable(ctx context.Context) (bool, error) {
	owner, err := s.plan.d.stranger(ctx, s.db, s.plan)
	if err != nil {
		return false, err
	}
	if owner != "" {
		return false, invalid("side_table", "would use %s, which is no table of this user's, of the owner of %s or of a superuser, but belongs to %s;"+
			" if it is meant, change its owner (alter table %s owner to …), else drop it", s.plan.Side(), s.plan.Table, owner, s.plan.Side())
	}
	_, err = queryAll(ctx, s.db, "select 1 from "+s.plan.Side()+" limit 0")
	return err == nil, nil
}

// lacksSideTable reports whether the side table has yet to be made.
func (s *Store) lacksSideTable(ctx context.Context) (bool, error) {
	if !s.plan.SideTable {
		return false, nil
	}
	there, err := s.hasSideTable(ctx)
	return !there, err
}

func (s *Store) makeSideTableIn(ctx context.Context, q querier) error {
	texts, err := s.plan.sideTable()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, err := q.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// sideTable is the SQL that makes the side table and its index.
func (p *plan) sideTable() (texts []string, err error) {
	for _, name := range []string{"lease_table", "lease_index"} {
		st, err := render(p.d, name, piece{plan: p})
		if err != nil {
			return nil, err
		}
		texts = append(texts, st.text)
	}
	return texts, nil
}

// Queue is what workers call the table: the mapping's queue.
func (s *Store) Queue() string { return s.plan.Mapping.Queue }

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
		return invalid("queue", "%q is not what the mapping calls its rows: %q", queue, s.Queue())
	}
	return nil
}

// run runs one statement by itself and reads its rows.
func run[T any](ctx context.Context, q querier, st *statement, values map[string]any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := q.QueryContext(ctx, st.text, st.args(values)...)
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
func (s *Store) write(ctx context.Context, f func(querier) error) error {
	return inTx(ctx, s.plan.d, s.db, f)
}

func keyText(id int64) string { return fmt.Sprintf("[%d]", id) }
