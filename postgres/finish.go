package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// A Finish waits for a locked row or another lock three times: first with all outcomes in one
// batch, then with each alone, last with those that remain. It does not wait for jobs that
// another transaction is finishing.
const (
	batchLockWait = 250 * time.Millisecond
	rowLockWait   = 5 * time.Millisecond
	lastLockWait  = 2 * time.Second
)

var lockTimeout = qualify.Text("select set_config('lock_timeout', $1, true)")

// finisher says on which connection outcomes are written, and how.
type finisher struct {
	conn
	lockWait  time.Duration // how long each statement waits for a lock; 0: as the connection's own setting says
	whole     bool          // jobs of flows and with steps may be among those that end: complete.sql needs its whole text
	ownTokens [][16]byte    // tokens of claims made in this transaction: while it is open their leases do not end
	settle    func()        // if not nil, called once jobs have ended that others come after
}

// steps puts before list a statement that limits how long those in list wait for a lock.
func (f finisher) steps(list ...step) []step {
	if f.lockWait == 0 {
		return list
	}
	return append([]step{{sql: lockTimeout, args: []any{strconv.FormatInt(f.lockWait.Milliseconds(), 10)}}}, list...)
}

// Finish implements dibs.Store.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes, err := checks.Outcomes(outcomes)
	switch err = s.ready(ctx, "finish", err); {
	case err != nil || len(outcomes) == 0:
		return err
	case slices.ContainsFunc(outcomes, adds):
		return gaveUp(ctx, "finish", s.finishAdding(ctx, outcomes))
	case len(outcomes) >= mergeBelow:
		return s.finishAlone(ctx, outcomes)
	}
	_, err = s.merged.finishes.Call(ctx, outcomes)
	return gaveUp(ctx, "finish", err)
}

// finishAlone writes checked outcomes. If another transaction holds a job's row, as a handler
// does that left its transaction open, it writes the other outcomes one by one. Then it waits
// longer for the rows that remain. Short statements lock rows too, and take long on a busy
// machine: a claim may lock a row before it sees that the job is claimed, and a table is
// locked while it grows.
func (s *Store) finishAlone(ctx context.Context, outcomes []dibs.Outcome) error {
	err := s.finish(ctx, outcomes, finisher{conn: s.db, lockWait: batchLockWait, settle: s.settleSoon})
	if !isLocked(err) {
		return err
	}
	left := dibs.FinishError{Err: err}
	for i := range outcomes {
		if err := s.finishInto(ctx, &left, outcomes[i:i+1], rowLockWait); err != nil {
			return err
		}
	}
	if len(left.Unwritten) == 0 {
		return checks.Unfinished(left)
	}
	unwritten, _ := parted(outcomes, func(o dibs.Outcome) bool { return slices.Contains(left.Unwritten, o.ID) })
	finishing, err := s.held(ctx, "finish", each(unwritten, idOf), each(unwritten, tokenOf))
	if err != nil {
		return checks.Unfinished(left)
	}
	_, last := parted(unwritten, func(o dibs.Outcome) bool { return finishing[o.ID] })
	left.Unwritten = slices.DeleteFunc(left.Unwritten, func(id int64) bool { return !finishing[id] })
	if len(last) > 0 {
		err = s.finishInto(ctx, &left, last, lastLockWait)
	}
	return cmp.Or(err, checks.Unfinished(left))
}

// finishInto writes outcomes, and adds to left those that are refused or not written.
func (s *Store) finishInto(ctx context.Context, left *dibs.FinishError, outcomes []dibs.Outcome, wait time.Duration) error {
	err := s.finish(ctx, outcomes, finisher{conn: s.db, lockWait: wait, settle: s.settleSoon})
	var refused *dibs.FinishError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		left.Unwritten = append(left.Unwritten, refused.Unwritten...)
		left.Lost = append(left.Lost, refused.Lost...)
	case isLocked(err):
		left.Unwritten = append(left.Unwritten, idsOf(outcomes)...)
	default:
		return err
	}
	return nil
}

// finish writes checked outcomes.
func (s *Store) finish(ctx context.Context, outcomes []dibs.Outcome, f finisher) error {
	lost, err := s.write(ctx, outcomes, f)
	if err != nil || len(lost) == 0 {
		return wrap("finish", err)
	}
	// A finish beside an extension may have seen the lease's old end, and the text for plain jobs passes over others:
	// recheck.sql finds the leases that still hold.
	good := map[int64]bool{}
	if err := f.run(ctx, f.steps(among(s.step("recheck", each(lost, idOf), each(lost, tokenOf)), good))...); err != nil {
		return &dibs.FinishError{Err: wrap("finish", err), Unwritten: idsOf(lost)}
	}
	again, lost := parted(lost, func(o dibs.Outcome) bool { return good[o.ID] })
	if len(again) > 0 {
		f.whole = true
		still, err := s.write(ctx, again, f)
		if err != nil {
			return &dibs.FinishError{Err: wrap("finish", err), Unwritten: idsOf(again), Lost: idsOf(lost)}
		}
		lost = append(lost, still...)
	}
	return checks.Unfinished(dibs.FinishError{Lost: idsOf(lost)})
}

// write writes outcomes, and returns those that were refused.
func (s *Store) write(ctx context.Context, outcomes []dibs.Outcome, f finisher) (lost []dibs.Outcome, err error) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b dibs.Outcome) int { return cmp.Compare(a.ID, b.ID) })
	final, back := parted(outcomes, func(o dibs.Outcome) bool { return stateOf(o).Final() })
	var ended, given []written
	var steps []step
	if len(final) > 0 {
		complete := s.step(
			"complete", each(final, idOf), each(final, tokenOf), each(final, func(o *dibs.Outcome) string { return string(stateOf(*o)) }),
			orNone(each(final, func(o *dibs.Outcome) *string { return textOrNil(o.Result) })), orNone(each(final, errorText)), f.ownTokens,
		)
		columns := (*written).columns
		if !f.whole && !s.sweeper.settler.seen.Load() {
			complete.sql, columns = s.sql.plain("complete"), (*written).plainColumns
		}
		steps = append(steps, collect(complete, &ended, columns))
	}
	if len(back) > 0 {
		steps = append(steps, collect(s.step(
			"retry", each(back, idOf), each(back, tokenOf), each(back, func(o *dibs.Outcome) string { return string(o.Ending) }),
			each(back, errorText), each(back, delayOf), f.ownTokens,
		), &given, (*written).columns))
	}
	if err := f.run(ctx, f.steps(steps...)...); err != nil {
		return nil, err
	}
	followed := func(w written) bool { return w.followed }
	if f.settle != nil && (slices.ContainsFunc(ended, followed) || slices.ContainsFunc(given, followed)) {
		s.sweeper.settler.seen.Store(true)
		f.settle()
	}
	ids, queues := make(map[int64]bool, len(outcomes)), map[string]bool{} // queues[name] is true if a place in a group became free there
	for _, w := range append(ended, given...) {
		queues[w.queue] = queues[w.queue] || w.freed
		for text := range strings.SplitSeq(strings.Trim(w.ids, "{}"), ",") {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			ids[id] = true
		}
	}
	for queue, freed := range queues {
		if q, _ := s.queues.get(queue); freed || q.Concurrency > 0 {
			s.bell.madeRoom(queue)
		}
	}
	s.waits.Ended(func() []int64 { return idsOf(outcomes) })
	return slices.DeleteFunc(outcomes, func(o dibs.Outcome) bool { return ids[o.ID] }), nil
}

// written is a row of complete.sql or retry.sql: jobs whose outcomes are written.
type written struct {
	queue string
	freed bool   // some of them left a place in their group
	ids   string // as text, which every driver can read
	// followed: others come after one of them that has ended
	followed bool
}

func (w *written) columns() []any { return []any{&w.queue, &w.freed, &w.ids, &w.followed} }

func (w *written) plainColumns() []any { return w.columns()[:3] }

// parted splits outcomes into those for which as is true, and the others.
func parted(outcomes []dibs.Outcome, as func(dibs.Outcome) bool) (are, others []dibs.Outcome) {
	are = make([]dibs.Outcome, 0, len(outcomes))
	for _, o := range outcomes {
		if as(o) {
			are = append(are, o)
		} else {
			others = append(others, o)
		}
	}
	return are, others
}

// each makes a statement's parameter: an array with one value for each outcome.
func each[T any](outcomes []dibs.Outcome, value func(*dibs.Outcome) T) []T {
	all := make([]T, len(outcomes))
	for i := range outcomes {
		all[i] = value(&outcomes[i])
	}
	return all
}

func idOf(o *dibs.Outcome) int64 { return o.ID }

func tokenOf(o *dibs.Outcome) [16]byte { return o.Token }

func idsOf(outcomes []dibs.Outcome) []int64 {
	ids := each(outcomes, idOf)
	slices.Sort(ids)
	return ids
}

// stateOf is the state that an outcome leads to, as far as the outcome alone decides it; retry.sql decides the rest.
func stateOf(o dibs.Outcome) dibs.State { return (&dibs.RawJob{}).After(o) }

// errorText is nil for outcomes that leave no entry in the error history.
func errorText(o *dibs.Outcome) *string {
	if !o.LeavesError() {
		return nil
	}
	return &o.Error
}

func delayOf(o *dibs.Outcome) *int64 {
	if o.Delay == nil {
		return nil
	}
	return new(o.Delay.Microseconds())
}

// orNone returns nil for a list that holds only nils: most jobs have no result and no error.
func orNone(list []*string) []*string {
	if slices.ContainsFunc(list, func(s *string) bool { return s != nil }) {
		return list
	}
	return nil
}
