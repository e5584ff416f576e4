package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// adds reports whether an outcome adds jobs.
func adds(o dibs.Outcome) bool { return len(o.Add) > 0 }

// finishAdding writes outcomes of which some add jobs: these in a transaction of their own, and the others as always. If
// another transaction holds one of the rows, each is written by itself.
func (s *Store) finishAdding(ctx context.Context, outcomes []dibs.Outcome) error {
	adding, others := parted(outcomes, adds)
	var left dibs.FinishError
	err := s.addAlone(ctx, adding, batchLockWait)
	if isLocked(err) && len(adding) > 1 {
		for i := range adding {
			if err = s.addAlone(ctx, adding[i:i+1], rowLockWait); !leave(&left, adding[i:i+1], err) {
				return err
			}
		}
	} else if !leave(&left, adding, err) {
		return err
	}
	if len(others) > 0 {
		if err := s.Finish(ctx, others); !leave(&left, others, err) {
			return err // no FinishError: it would say that the others are written
		}
	}
	return checks.Unfinished(left)
}

// leave adds to left what an error says was refused or not written. It returns false for other errors.
func leave(left *dibs.FinishError, outcomes []dibs.Outcome, err error) bool {
	var refused *dibs.FinishError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		left.Unwritten, left.Lost = append(left.Unwritten, refused.Unwritten...), append(left.Lost, refused.Lost...)
		left.Err = errors.Join(left.Err, refused.Err)
	case isLocked(err):
		left.Unwritten, left.Err = append(left.Unwritten, idsOf(outcomes)...), errors.Join(left.Err, err)
	default:
		return false
	}
	return true
}

// addAlone writes outcomes that add jobs in a transaction, and wakes workers after it.
func (s *Store) addAlone(ctx context.Context, outcomes []dibs.Outcome, wait time.Duration) error {
	var queues []string
	var refused error
	unsettled := false
	err := s.transact(ctx, "finish", func(c conn) (err error) {
		f := finisher{conn: c, whole: true, lockWait: wait, settle: func() { unsettled = true }}
		queues, refused, err = s.finishAndAdd(ctx, outcomes, f)
		return err
	})
	if err != nil {
		return err
	}
	for _, q := range queues {
		s.Wake(q)
	}
	if unsettled {
		s.settleSoon()
	}
	return refused
}

// finishAndAdd writes outcomes, and enqueues what those add that are written. It returns the queues that got jobs, and the
// outcomes that were refused. All that is wrong with the jobs is found before anything is written.
func (s *Store) finishAndAdd(ctx context.Context, outcomes []dibs.Outcome, f finisher) (queues []string, refused, err error) {
	older, err := s.addable(ctx, outcomes, f)
	if err != nil {
		return nil, nil, err
	}
	left, err := s.heritages(ctx, outcomes, f)
	if err == nil && older {
		err = s.addLate(ctx, left, f)
	}
	if err != nil {
		return nil, nil, err
	}
	refused = s.finish(ctx, outcomes, f)
	lost := map[int64]bool{}
	var list *dibs.FinishError
	switch {
	case errors.As(refused, &list) && list.Err == nil:
		for _, id := range slices.Concat(list.Lost, list.Unwritten) {
			lost[id] = true
		}
	case refused != nil:
		return nil, nil, refused
	}
	added, err := checks.AddedBy(outcomes, func(id int64) bool { return !lost[id] })
	if err != nil || len(added.Rows) == 0 {
		return nil, refused, err
	}
	done, queues, err := s.enqueueRows(ctx, added.Rows, f.conn, true)
	if err != nil {
		return nil, nil, added.Explain(err)
	}
	if f.settle != nil && slices.ContainsFunc(added.Rows, func(r checks.Row) bool { return len(r.Edges) > 0 }) {
		f.settle()
	}
	return queues, refused, s.inherit(ctx, outcomes, added, done, left, f)
}

// addLate keeps other ends away that add jobs after older ones, if somebody comes after the jobs: each has to see what the
// others have added, so that no two jobs come to wait for each other.
func (s *Store) addLate(ctx context.Context, left map[int64]heritage, f finisher) error {
	for _, h := range left {
		if h.followers > 0 {
			return wrap("finish", f.run(ctx, f.steps(s.step("turn_settle", lockKey(s.o.schema(), "finish", "add")))...))
		}
	}
	return nil
}

// addable refuses outcomes that add jobs which cannot be enqueued. It reports whether some may come after older jobs.
func (s *Store) addable(ctx context.Context, outcomes []dibs.Outcome, f finisher) (older bool, err error) {
	added, err := checks.AddedBy(outcomes, func(int64) bool { return true })
	if err != nil {
		return false, err
	}
	known, err := s.known(ctx, queueNames(added.Rows))
	if err == nil {
		_, err = s.fit(ctx, batch{rows: added.Rows, queues: queueNames(added.Rows)}, known)
	}
	if err == nil {
		err = s.parentsExist(ctx, batch{rows: added.Rows}, f.conn)
	}
	return added.MayBeOlder(outcomes), added.Explain(err)
}

func queueNames(rows []checks.Row) []string {
	names, _ := queuesOf(rows)
	return names
}

// heritage is what a job leaves to those that its end adds.
type heritage struct {
	id, flow  int64
	followers int // jobs that come after it, and then after those too
}

// heritages reads what jobs leave whose outcomes add others.
func (s *Store) heritages(ctx context.Context, outcomes []dibs.Outcome, f finisher) (map[int64]heritage, error) {
	adding, _ := parted(outcomes, adds)
	var all []heritage
	err := f.run(ctx, collect(s.step("heritage", idsOf(adding), dibs.MaxAfter+1), &all, func(h *heritage) []any { return []any{&h.id, &h.flow, &h.followers} }))
	left := make(map[int64]heritage, len(all))
	for _, h := range all {
		left[h.id] = h
		if err == nil {
			err = checks.TooManyHeirs(outcomes, h.id, h.followers)
		}
	}
	return left, wrap("finish", err)
}

// inherit has what follows jobs follow those that their ends have added, too.
func (s *Store) inherit(ctx context.Context, outcomes []dibs.Outcome, added checks.Added, done []dibs.Enqueued, left map[int64]heritage, f finisher) error {
	var ids, parents, flows []int64
	for i, e := range done {
		if e.Existing { // another job holds the unique key
			continue
		}
		h := left[outcomes[added.By[i]].ID]
		ids, parents, flows = append(ids, e.ID), append(parents, h.id), append(flows, h.flow)
	}
	if len(ids) == 0 {
		return nil
	}
	return wrap("finish", f.run(ctx, s.step("inherit", ids, parents, flows)))
}
