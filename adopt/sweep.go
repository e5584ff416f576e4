package adopt

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Leases that ended are looked for every sweepLeast, or as seldom as keeps the
// sweeps of this process to a twentieth of the time: without an index that leads
// to the running rows, a sweep reads all that are unfinished.
const (
	sweepLeast = 500 * time.Millisecond
	sweepMost  = 10 * time.Second
	sweepShare = 20
)

// sweepIfDue sweeps before a claim, if it is time and nobody here is at it. That it
// fails, because the table refuses to have a row put back, must not keep others from
// being claimed; a worker's own sweeps report it.
func (s *Store) sweepIfDue(ctx context.Context) {
	if time.Now().UnixNano() >= s.swept.Load()+s.sweepIn.Load() {
		_, _ = s.Sweep(ctx) // see above
	}
}

// Sweep is dibs.Store.Sweep: rows whose lease has ended become available again, or
// dead if their attempts are used up.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	if err := s.usable(s.Queue()); err != nil {
		return dibs.Swept{}, err
	}
	if !s.sweeper.TryLock() {
		return dibs.Swept{Busy: true}, nil
	}
	defer s.sweeper.Unlock()
	start := time.Now()
	n, err := s.sweep(ctx)
	took := min(max(sweepShare*time.Since(start), sweepLeast), sweepMost)
	s.swept.Store(start.UnixNano())
	s.sweepIn.Store(int64(took))
	if n > 0 {
		s.wakers.wake()
	}
	return dibs.Swept{Expired: n}, adopted.Classify("sweep", err)
}

func (s *Store) sweep(ctx context.Context) (n int, err error) {
	if s.plan.SideTable {
		err = s.write(ctx, func(q adopted.Querier) error {
			n, err = s.sweepLeases(ctx, q)
			return err
		})
		return n, err
	}
	for _, st := range []*adopted.Statement{s.do.Late, s.do.LateDead} {
		if st == nil {
			continue
		}
		rows, err := s.alter(ctx, st)
		if err != nil {
			return n, err
		}
		n += len(rows)
	}
	return n, nil
}

// alter runs one statement that writes, in a transaction if the database needs one.
func (s *Store) alter(ctx context.Context, st *adopted.Statement) (rows []*row, err error) {
	if s.plan.Dialect.OneStatement {
		return run(ctx, s.db, st, nil, scanKey)
	}
	err = s.write(ctx, func(q adopted.Querier) error {
		rows, err = run(ctx, q, st, nil, scanKey)
		return err
	})
	return rows, err
}

func (s *Store) sweepLeases(ctx context.Context, q adopted.Querier) (int, error) {
	strays := 0
	if s.do.Late != nil {
		rows, err := run(ctx, q, s.do.Late, nil, scanKey)
		if err != nil {
			return 0, err
		}
		strays = len(rows)
	}
	over, err := run(ctx, q, s.do.Overdue, nil, scanHeld)
	if err != nil || len(over) == 0 {
		if _, err := q.ExecContext(ctx, s.do.Forget.Text, s.do.Forget.Args(nil)...); err != nil {
			return 0, err
		}
		return strays, err
	}
	all := make([]*ended, len(over))
	var by [hows][]*ended
	for i, r := range over {
		e := &ended{row: r, claim: &claim{key: r.key}, how: goesBack}
		e.Error = adopted.LateError
		if counted := int(r.attempt.Int64) - r.excused; s.plan.MaxAttempts > 0 && counted >= s.plan.MaxAttempts {
			e.how = dies
		}
		all[i] = e
		by[e.how] = append(by[e.how], e)
	}
	if err := s.changeAll(ctx, q, by); err != nil {
		return 0, err
	}
	return strays + len(over), s.settle(ctx, q, all)
}
