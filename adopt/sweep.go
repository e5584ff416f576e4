package adopt

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// A sweep may take long: without an index of the running rows it reads all unfinished ones. So
// sweeps take at most a twentieth of this process's time, but one runs every maxSweepPause.
const (
	minSweepPause = 500 * time.Millisecond
	maxSweepPause = 10 * time.Second
	sweepShare    = 20
)

// sweepIfDue sweeps before a claim if the pause since the last sweep is over. It ignores an error, such
// as a row that a trigger refuses to put back: other rows can be claimed, and the worker's own sweeps report it.
func (s *Store) sweepIfDue(ctx context.Context) {
	if time.Now().UnixNano() >= s.lastSweep.Load()+s.sweepPause.Load() {
		_, _ = s.Sweep(ctx)
	}
}

// Sweep is dibs.Store.Sweep: rows whose lease has ended become available again, or
// dead if their attempts are used up.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	if err := s.usable(s.Queue()); err != nil {
		return dibs.Swept{}, err
	}
	if !s.sweeping.TryLock() {
		return dibs.Swept{Busy: true}, nil
	}
	defer s.sweeping.Unlock()
	start := time.Now()
	n, err := s.sweep(ctx)
	pause := min(max(sweepShare*time.Since(start), minSweepPause), maxSweepPause)
	s.lastSweep.Store(start.UnixNano())
	s.sweepPause.Store(int64(pause))
	if n > 0 {
		s.wakers.wake()
	}
	return dibs.Swept{Expired: n}, adopted.Classify("sweep", err)
}

// Register is dibs.Store.Register: there is no register of workers beside an adopted table.
func (s *Store) Register(context.Context, dibs.WorkerInfo) error { return s.usable(s.Queue()) }

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
	overdue, err := run(ctx, q, s.do.Overdue, nil, scanHeld)
	if err != nil || len(overdue) == 0 {
		if _, err := q.ExecContext(ctx, s.do.Forget.Text, s.do.Forget.Args(nil)...); err != nil {
			return 0, err
		}
		return strays, err
	}
	all := make([]*ended, len(overdue))
	var byEffect [effects][]*ended
	for i, r := range overdue {
		e := &ended{lease: r, claim: &claim{key: r.key}, effect: effectPutBack}
		e.Error = adopted.LateError
		if counted := int(r.attempt.Int64) - r.excused; s.plan.MaxAttempts > 0 && counted >= s.plan.MaxAttempts {
			e.effect = effectDead
		}
		all[i] = e
		byEffect[e.effect] = append(byEffect[e.effect], e)
	}
	if err := s.changeAll(ctx, q, byEffect); err != nil {
		return 0, err
	}
	return strays + len(overdue), s.settle(ctx, q, all)
}
