package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Cancel implements dibs.Database.
func (s *Store) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	done, err := s.change(ctx, "cancel", ids)
	s.changed(done) // wakes workers: a cancelled job may have left its place in a group
	for _, j := range done {
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

// Requeue implements admin.Admin.
func (s *Store) Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	done, err := s.changeEnded(ctx, "requeue", ids, until)
	return s.changed(done), err
}

// changeEnded changes jobs that ended at until or before, or whenever they ended if it is zero.
func (s *Store) changeEnded(ctx context.Context, name string, ids []int64, until time.Time) ([]changedJob, error) {
	if err := checks.Until(until); err != nil {
		return nil, err
	}
	var latest any
	if !until.IsZero() {
		latest = until
	}
	return s.change(ctx, name, ids, latest)
}

// Edit implements admin.Admin.
func (s *Store) Edit(ctx context.Context, ids []int64, e admin.Edit) ([]int64, error) {
	if err := checks.Edit(ids, e); err != nil {
		return nil, err
	}
	done, err := s.change(ctx, "edit", ids, e.Priority, e.RunAt)
	return s.changed(done), err
}

// changedJob is a job that an operator's statement has changed.
type changedJob struct {
	id       int64
	queue    string
	priority *int16     // set by edit.sql only
	state    dibs.State // set by cancel.sql only
	followed bool       // set by cancel.sql only: it has ended, and others come after it
}

// columns are those of the operator's statement of this name.
func (j *changedJob) columns(name string) []any {
	to := []any{&j.id, &j.queue}
	switch name {
	case "edit":
		to = append(to, &j.priority)
	case "cancel":
		to = append(to, &j.state, &j.followed)
	}
	return to
}

// changed wakes workers for jobs that were put back or moved, and returns the jobs' ids.
func (s *Store) changed(jobs []changedJob) []int64 {
	queues := map[string]bool{}
	for _, j := range jobs {
		if queues[j.queue] = true; j.priority != nil {
			s.queues.addLane(j.queue, *j.priority)
		}
	}
	for queue := range queues {
		s.Wake(queue)
	}
	return idsChanged(jobs)
}

func idsChanged(jobs []changedJob) []int64 {
	ids := []int64{}
	for _, j := range jobs {
		ids = append(ids, j.id)
	}
	slices.Sort(ids)
	return ids
}

// DeleteEnded implements admin.Admin.
func (s *Store) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	done, err := s.changeEnded(ctx, "delete", ids, until)
	return idsChanged(done), err
}

// Prune implements admin.Admin.
func (s *Store) Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error) {
	if err := s.ready(ctx, "prune", checks.Prune(queue, state, olderThan)); err != nil {
		return 0, err
	}
	total, size := 0, pruneBatch
	for {
		n := 0
		err := s.db.run(ctx, s.step("prune", queue, string(state), olderThan.Microseconds(), size).into(&n))
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

// lockedPatience is how long an operator's call waits for jobs that an open transaction
// has locked (Tx.Claim, Tx.Finish).
const lockedPatience = 5 * time.Second

// A requeue keeps settlements away, so it waits only briefly for a row or a unique key that an open transaction holds, as
// after a Tx.Enqueue. Then it is rolled back, and others settle before it is tried again.
const (
	turnLockWait = 100 * time.Millisecond
	turnPause    = 200 * time.Millisecond
)

// change runs one of the operator's statements on a list of ids, and repeats it for jobs that another transaction had
// locked. If the server ends the statement because it takes too long, the next one gets fewer ids.
func (s *Store) change(ctx context.Context, name string, ids []int64, args ...any) (all []changedJob, err error) {
	if err := s.ready(ctx, name, checks.IDs(ids)); err != nil || len(ids) == 0 {
		return nil, err
	}
	left := slices.Compact(slices.Sorted(slices.Values(ids)))
	var locked []int64
	end, size := time.Now().Add(lockedPatience), len(left)
	for len(left) > 0 {
		part := left[:min(size, len(left))]
		var round []changedJob
		look := 0
		st := s.step(name, append([]any{part}, args...)...)
		err := s.db.run(ctx, s.withFollowers(name, part, collect(st, &round, func(j *changedJob) []any { return j.columns(name) }), &look)...)
		if fewer, ok := smaller(err, len(part)); ok {
			size = fewer
			continue
		}
		if isLocked(err) {
			if err = sleep(ctx, turnPause); err == nil && time.Now().Before(end) {
				continue
			}
			err = cmp.Or(err, fmt.Errorf("another transaction holds a lock that this needs, as on the unique key of a job: %w", dibs.ErrUnavailable))
		}
		if err != nil {
			return all, wrap(name, err)
		}
		if look > 0 || slices.ContainsFunc(round, func(j changedJob) bool { return j.followed }) {
			s.settleSoon()
		}
		all, left = append(all, round...), left[len(part):]
		if len(round) < len(part) {
			more, err := s.locked(ctx, name, part, round)
			if err != nil {
				return all, wrap(name, err)
			}
			locked = append(locked, more...)
		}
		if len(left) > 0 || len(locked) == 0 {
			continue
		}
		if time.Now().After(end) {
			return all, checks.Failed(name, fmt.Errorf("job %d is locked by an open transaction: %w", locked[0], dibs.ErrUnavailable))
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return all, wrap(name, err)
		}
		left, locked = locked, nil
	}
	return all, nil
}

// smaller is how many rows to try next if the server's statement_timeout has ended a statement for n rows.
func smaller(err error, n int) (int, bool) {
	return max(1, n/4), n > 1 && hasCode(err, "57014")
}

// locked lists the ids that a statement skipped because their rows were locked.
func (s *Store) locked(ctx context.Context, name string, ids []int64, done []changedJob) (left []int64, err error) {
	if name == "requeue" || name == "delete" {
		return nil, nil // these statements skip only jobs that another caller has requeued or deleted
	}
	err = s.db.run(ctx, column(s.step("present", ids, name == "edit"), &left))
	return slices.DeleteFunc(left, func(id int64) bool {
		return slices.ContainsFunc(done, func(j changedJob) bool { return j.id == id })
	}), err
}
