package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Cancel implements dibs.Admin.
func (s *Store) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	var c changedJobs
	err = s.change(ctx, "cancel", ids, nil, &c)
	c.done(s) // a cancelled job may have made room in its group
	for _, j := range c.jobs {
		if j.state == dibs.Running {
			asked = append(asked, j.id)
		} else {
			ended = append(ended, j.id)
		}
	}
	slices.Sort(ended)
	slices.Sort(asked)
	if len(ended) > 0 {
		s.waits.Ended(func() []int64 { return ended })
	}
	return ended, asked, err
}

// Requeue implements dibs.Admin.
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]int64, error) {
	return s.RequeueEnded(ctx, ids, time.Time{})
}

// RequeueEnded implements dibs.Admin.
func (s *Store) RequeueEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	var c changedJobs
	err := s.changeEnded(ctx, "requeue", ids, until, &c)
	return c.done(s), err
}

// changeEnded changes jobs that ended at until or before, or whenever they ended if it is zero.
func (s *Store) changeEnded(ctx context.Context, name string, ids []int64, until time.Time, c *changedJobs) error {
	if err := checks.Until(until); err != nil {
		return err
	}
	var latest any
	if !until.IsZero() {
		latest = until
	}
	return s.change(ctx, name, ids, []any{latest}, c)
}

// Edit implements dibs.Admin.
func (s *Store) Edit(ctx context.Context, ids []int64, e dibs.Edit) ([]int64, error) {
	if err := checks.Edit(ids, e); err != nil {
		return nil, err
	}
	var c changedJobs
	err := s.change(ctx, "edit", ids, []any{e.Priority, e.RunAt}, &c)
	return c.done(s), err
}

// changedJobs collects the jobs that an operator's statement has changed.
type changedJobs struct {
	jobs []changedJob
}

type changedJob struct {
	id       int64
	queue    string
	priority *int16     // set by edit.sql only
	state    dibs.State // set by cancel.sql only
}

func (c *changedJobs) scan(name string, scan func(...any) error) error {
	var j changedJob
	to := []any{&j.id, &j.queue}
	switch name {
	case "edit":
		to = append(to, &j.priority)
	case "cancel":
		to = append(to, &j.state)
	}
	err := scan(to...)
	c.jobs = append(c.jobs, j)
	return err
}

// done has workers look for the jobs that were put back or moved, and returns their ids.
func (c *changedJobs) done(s *Store) []int64 {
	queues := map[string]bool{}
	for _, j := range c.jobs {
		if queues[j.queue] = true; j.priority != nil {
			s.queues.addLane(j.queue, *j.priority)
		}
	}
	for queue := range queues {
		s.Wake(queue)
	}
	return c.ids()
}

func (c *changedJobs) ids() []int64 {
	ids := []int64{}
	for _, j := range c.jobs {
		ids = append(ids, j.id)
	}
	slices.Sort(ids)
	return ids
}

// DeleteEnded implements dibs.Admin.
func (s *Store) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	var c changedJobs
	err := s.changeEnded(ctx, "delete", ids, until, &c)
	return c.ids(), err
}

// Prune implements dibs.Admin.
func (s *Store) Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error) {
	if err := s.ready(ctx, "prune", checks.Prune(queue, state, olderThan)); err != nil {
		return 0, err
	}
	total, size := 0, pruneBatch
	for {
		n := 0
		err := s.db.run(ctx, step{
			sql:  s.sql.get("prune"),
			args: []any{queue, string(state), olderThan.Microseconds(), size},
			row:  func(scan func(...any) error) error { return scan(&n) },
		})
		if fewer, ok := smaller(err, size); ok {
			size = fewer
			continue
		}
		if err != nil {
			return total, wrap("prune", err)
		}
		if total += n; n == 0 {
			return total, nil
		}
	}
}
