package adopt

import (
	"context"
	"log/slog"
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

// sweepIfDue sweeps before a claim if the pause since the last sweep is over. It ignores an error: rows can be claimed
// nevertheless, and the worker's own sweeps report it.
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
func (s *Store) Register(context.Context, ...dibs.WorkerInfo) error { return s.usable(s.Queue()) }

func (s *Store) sweep(ctx context.Context) (n int, err error) {
	if s.plan.SideTable {
		return s.sweepLeases(ctx)
	}
	back, err := s.expire(ctx, s.do.Late, s.do.LateKeys, s.do.LateNamed)
	if n = len(back); err != nil {
		return n, err
	}
	dead, err := s.expire(ctx, s.do.LateDead, s.do.LateDeadKeys, s.do.LateDeadNamed)
	if s.plan.Dead != nil && s.plan.Dead.Delete {
		for _, r := range dead {
			s.passed.logger().Warn("row is dead, and deleted: its last lease has ended", slog.String("key", keyName(r.key)))
		}
	}
	return n + len(dead), err
}

// alter runs one statement that writes, in a transaction if the database needs one.
func (s *Store) alter(ctx context.Context, st *adopted.Statement, values map[string]any) (rows []*row, err error) {
	if s.plan.Dialect.OneStatement {
		return run(ctx, s.db, st, values, scanKey)
	}
	err = s.write(ctx, func(q adopted.Querier) error {
		rows, err = run(ctx, q, st, values, scanKey)
		return err
	})
	return rows, err
}

// sweepLeases ends leases of the side table. Rows that the table refuses to have put back keep theirs.
func (s *Store) sweepLeases(ctx context.Context) (int, error) {
	back, err := s.expire(ctx, s.do.Late, s.do.LateKeys, s.do.LateNamed)
	strays := len(back)
	if err != nil {
		return strays, err
	}
	var late []*row
	over, err := s.endLeases(ctx, nil, &late)
	if adopted.Refused(err) {
		over, err = s.inHalves(late, func(some []*row) ([]*row, error) { return s.endLeases(ctx, some, nil) })
	}
	return strays + len(over), err
}

// endLeases ends those leases of the side table that are overdue: all, or only some. found gets the leases that it finds.
func (s *Store) endLeases(ctx context.Context, only []*row, found *[]*row) (over []*row, err error) {
	err = s.write(ctx, func(q adopted.Querier) error {
		overdue, err := run(ctx, q, s.do.Overdue, map[string]any{"passed": s.passed.keys()}, scanHeld)
		if found != nil {
			*found = overdue
		}
		if only != nil {
			overdue = matched(overdue, only, func(*row, *row) {})
		}
		if err != nil {
			return err
		}
		if len(overdue) == 0 {
			return s.do.Forget.Exec(ctx, q, map[string]any{})
		}
		most, err := s.mostOf(ctx, q, overdue)
		if err != nil {
			return err
		}
		all := make([]*ended, len(overdue))
		var byEffect [effects][]*ended
		for i, r := range overdue {
			e := &ended{lease: r, claim: &claim{key: r.key}, effect: effectPutBack}
			e.Error = adopted.LateError
			if counted := int(r.attempt.Int64) - r.excused; most[r.key] > 0 && counted >= most[r.key] {
				e.effect = effectDead
			}
			all[i] = e
			byEffect[e.effect] = append(byEffect[e.effect], e)
		}
		over = overdue
		if err := s.changeAll(ctx, q, byEffect); err != nil {
			return err
		}
		return s.settle(ctx, q, all)
	})
	if err != nil {
		over = nil
	}
	return over, err
}

// mostOf says after how many attempts the rows of leases are dead, by their keys.
func (s *Store) mostOf(ctx context.Context, q adopted.Querier, leases []*row) (map[string]int, error) {
	most := make(map[string]int, len(leases))
	if s.plan.MaxAttemptsColumn == "" {
		for _, r := range leases {
			most[r.key] = s.plan.MaxAttempts
		}
		return most, nil
	}
	rows, err := s.fetch(ctx, q, keysOf(leases))
	for _, r := range rows {
		most[r.key] = r.limit()
	}
	return most, err
}
