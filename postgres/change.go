package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// lockedPatience is how long an operator's call waits for jobs that an open transaction
// has locked (Tx.Claim, Tx.Finish).
const lockedPatience = 5 * time.Second

// change runs one of the operator's statements on a list of ids, and again on those that
// another transaction had locked. Where the server ends it as it takes too long, it goes on with fewer ids at a time.
func (s *Store) change(ctx context.Context, name string, ids []int64, args []any, c *changedJobs) error {
	if err := s.ready(ctx, name, checks.IDs(ids)); err != nil || len(ids) == 0 {
		return err
	}
	left := slices.Compact(slices.Sorted(slices.Values(ids)))
	var locked []int64
	end, size := time.Now().Add(lockedPatience), len(left)
	for len(left) > 0 {
		part := left[:min(size, len(left))]
		var round changedJobs
		err := s.db.run(ctx, step{
			sql:   s.sql.get(name),
			args:  append([]any{part}, args...),
			begin: func() { round = changedJobs{} },
			row:   func(scan func(...any) error) error { return round.scan(name, scan) },
		})
		if fewer, ok := smaller(err, len(part)); ok {
			size = fewer
			continue
		}
		if err != nil {
			return wrap(name, err)
		}
		c.jobs, left = append(c.jobs, round.jobs...), left[len(part):]
		if len(round.jobs) < len(part) {
			more, err := s.locked(ctx, name, part, round.jobs)
			if err != nil {
				return wrap(name, err)
			}
			locked = append(locked, more...)
		}
		if len(left) > 0 || len(locked) == 0 {
			continue
		}
		if time.Now().After(end) {
			return checks.Failed(name, fmt.Errorf("job %d is locked by an open transaction: %w", locked[0], dibs.ErrUnavailable))
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return wrap(name, err)
		}
		left, locked = locked, nil
	}
	return nil
}

// smaller is how many rows to try next if a statement for n rows has met the server's statement_timeout.
func smaller(err error, n int) (int, bool) {
	return max(1, n/4), n > 1 && hasCode(err, "57014")
}

// locked lists the ids that a statement skipped although it would change them.
func (s *Store) locked(ctx context.Context, name string, ids []int64, done []changedJob) (left []int64, err error) {
	if name == "requeue" || name == "delete" {
		return nil, nil // another caller has requeued or deleted them
	}
	err = s.db.run(ctx, step{sql: s.sql.get("present"), args: []any{ids, name == "edit"}, begin: func() { left = nil }, row: func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		if !slices.ContainsFunc(done, func(j changedJob) bool { return j.id == id }) {
			left = append(left, id)
		}
		return err
	}})
	return left, err
}
