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

// How long a Finish waits for a locked row or another lock: first all outcomes in one batch,
// then each by itself, last those that remain, except for jobs that another transaction is
// finishing.
const (
	batchLockWait = 250 * time.Millisecond
	rowLockWait   = 5 * time.Millisecond
	lastLockWait  = 2 * time.Second
)

var lockTimeout = qualify.Text("select set_config('lock_timeout', $1, true)")

// finisher says on which connection outcomes are written, and how.
type finisher struct {
	conn
	lockWait  time.Duration // how long each statement waits for a lock; 0: as the connection is set
	ownTokens [][16]byte    // tokens of claims made in this transaction: while it is open their leases do not end
}

// steps puts a statement before list that limits how long the others wait for a lock.
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
	case len(outcomes) >= mergeBelow:
		return s.finishAlone(ctx, outcomes)
	}
	_, err = s.merged.finishes.Call(ctx, outcomes)
	return gaveUp(ctx, "finish", err)
}

// finishAlone writes checked outcomes. If a job's row is locked, as by a handler that left
// its transaction open, it writes the outcomes one by one without that job. Then it waits
// longer for rows that only short statements lock, which take long on a busy machine: a claim
// may lock a row before it sees that the job is claimed, and a table is locked while it grows.
func (s *Store) finishAlone(ctx context.Context, outcomes []dibs.Outcome) error {
	err := s.finish(ctx, outcomes, finisher{conn: s.db, lockWait: batchLockWait})
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
		return finishError(left)
	}
	unwritten := slices.DeleteFunc(slices.Clone(outcomes), func(o dibs.Outcome) bool { return !slices.Contains(left.Unwritten, o.ID) })
	ids, tokens := namesOf(unwritten)
	finishing, err := s.held(ctx, "finish", []any{ids, tokens})
	if err != nil {
		return finishError(left)
	}
	last := slices.DeleteFunc(unwritten, func(o dibs.Outcome) bool { return finishing[o.ID] })
	left.Unwritten = slices.DeleteFunc(left.Unwritten, func(id int64) bool { return !finishing[id] })
	if len(last) > 0 {
		err = s.finishInto(ctx, &left, last, lastLockWait)
	}
	return cmp.Or(err, finishError(left))
}

// finishInto writes outcomes, and adds to left those that are refused or not written.
func (s *Store) finishInto(ctx context.Context, left *dibs.FinishError, outcomes []dibs.Outcome, wait time.Duration) error {
	err := s.finish(ctx, outcomes, finisher{conn: s.db, lockWait: wait})
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

// finishError returns left as an error, or nil if left names no job.
func finishError(left dibs.FinishError) error {
	if len(left.Unwritten)+len(left.Lost) == 0 {
		return nil
	}
	if len(left.Unwritten) == 0 {
		left.Err = nil
	}
	return &left
}

// finish writes checked outcomes.
func (s *Store) finish(ctx context.Context, outcomes []dibs.Outcome, f finisher) error {
	lost, err := s.write(ctx, outcomes, f)
	if err != nil || len(lost) == 0 {
		return wrap("finish", err)
	}
	good, err := s.recheck(ctx, lost, f)
	if err != nil {
		return &dibs.FinishError{Err: wrap("finish", err), Unwritten: idsOf(lost)}
	}
	if len(good) > 0 {
		isGood := func(o dibs.Outcome) bool { return good[o.ID] }
		again := slices.DeleteFunc(slices.Clone(lost), func(o dibs.Outcome) bool { return !isGood(o) })
		lost = slices.DeleteFunc(lost, isGood)
		still, err := s.write(ctx, again, f)
		if err != nil {
			return &dibs.FinishError{Err: wrap("finish", err), Unwritten: idsOf(again), Lost: idsOf(lost)}
		}
		lost = append(lost, still...)
	}
	return finishError(dibs.FinishError{Lost: idsOf(lost)})
}

// write writes outcomes, and returns those that were refused.
func (s *Store) write(ctx context.Context, outcomes []dibs.Outcome, f finisher) (lost []dibs.Outcome, err error) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b dibs.Outcome) int { return cmp.Compare(a.ID, b.ID) })
	done := finished{}
	begin := done.begin // only the first statement clears done
	var steps []step
	if final, args := finalArgs(outcomes); final > 0 {
		steps = append(steps, step{sql: s.sql.get("complete"), args: append(args, f.ownTokens), begin: begin, row: done.scanQueue})
		begin = nil
	}
	if back, args := backArgs(outcomes); back > 0 {
		steps = append(steps, step{sql: s.sql.get("retry"), args: append(args, f.ownTokens), begin: begin, row: done.scan})
	}
	if err := f.run(ctx, f.steps(steps...)...); err != nil {
		return nil, err
	}
	for queue, freed := range done.queues {
		if q, _ := s.queues.get(queue); freed || q.Concurrency > 0 {
			s.bell.madeRoom(queue)
		}
	}
	s.waits.Ended(func() []int64 { return idsOf(outcomes) })
	return slices.DeleteFunc(outcomes, func(o dibs.Outcome) bool { return done.ids[o.ID] }), nil
}

// recheck returns the refused outcomes whose leases are good after all: while a lease is
// being extended, a finish may see its old end.
func (s *Store) recheck(ctx context.Context, lost []dibs.Outcome, f finisher) (map[int64]bool, error) {
	good := map[int64]bool{}
	ids, tokens := namesOf(lost)
	err := f.run(ctx, f.steps(step{
		sql:   s.sql.get("recheck"),
		args:  []any{ids, tokens},
		begin: func() { clear(good) },
		row: func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			good[id] = true
			return err
		},
	})...)
	return good, err
}

func namesOf(outcomes []dibs.Outcome) (ids []int64, tokens [][16]byte) {
	for _, o := range outcomes {
		ids, tokens = append(ids, o.ID), append(tokens, [16]byte(o.Token))
	}
	return ids, tokens
}

// finished collects what the statements report as written.
type finished struct {
	ids    map[int64]bool
	queues map[string]bool // true if a group's place became free in the queue
}

func (f *finished) begin() { f.ids, f.queues = map[int64]bool{}, map[string]bool{} }

// scan reads a row of retry.sql.
func (f *finished) scan(scan func(...any) error) error {
	var id int64
	var queue string
	var freed bool
	err := scan(&id, &queue, &freed)
	f.ids[id] = true
	f.queues[queue] = f.queues[queue] || freed
	return err
}

// scanQueue reads a row of complete.sql.
func (f *finished) scanQueue(scan func(...any) error) error {
	var queue, ids string
	var freed bool
	if err := scan(&queue, &freed, &ids); err != nil {
		return err
	}
	f.queues[queue] = f.queues[queue] || freed
	for text := range strings.SplitSeq(strings.Trim(ids, "{}"), ",") {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		f.ids[id] = true
	}
	return nil
}

func idsOf(outcomes []dibs.Outcome) []int64 {
	ids := make([]int64, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.ID
	}
	slices.Sort(ids)
	return ids
}

// stateOf is the state that an outcome leads to, as far as the outcome alone decides it; retry.sql decides the rest.
func stateOf(o *dibs.Outcome) dibs.State { return (&dibs.RawJob{}).After(*o) }

func finalArgs(outcomes []dibs.Outcome) (n int, args []any) {
	var ids []int64
	var tokens [][16]byte
	var states []string
	var results, errors []*string
	for i := range outcomes {
		o := &outcomes[i]
		state := stateOf(o)
		if !state.Final() {
			continue
		}
		ids, tokens, states = append(ids, o.ID), append(tokens, [16]byte(o.Token)), append(states, string(state))
		var result *string
		if o.Result != nil {
			text := string(o.Result)
			result = &text
		}
		results, errors = append(results, result), append(errors, errorText(o))
	}
	return len(ids), []any{ids, tokens, states, orNone(results), orNone(errors)}
}

// orNone turns a list of only nil into nil: most jobs have no result and no error.
func orNone(list []*string) []*string {
	if slices.ContainsFunc(list, func(s *string) bool { return s != nil }) {
		return list
	}
	return nil
}

func backArgs(outcomes []dibs.Outcome) (n int, args []any) {
	var ids []int64
	var tokens [][16]byte
	var endings []string
	var errors []*string
	var delays []*int64
	for i := range outcomes {
		o := &outcomes[i]
		if stateOf(o).Final() {
			continue
		}
		ids, tokens, endings = append(ids, o.ID), append(tokens, [16]byte(o.Token)), append(endings, string(o.Ending))
		errors = append(errors, errorText(o))
		var delay *int64
		if o.Delay != nil {
			us := o.Delay.Microseconds()
			delay = &us
		}
		delays = append(delays, delay)
	}
	return len(ids), []any{ids, tokens, endings, errors, delays}
}

// errorText is nil for outcomes that leave no entry in the error history.
func errorText(o *dibs.Outcome) *string {
	if !o.LeavesError() {
		return nil
	}
	return &o.Error
}
