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

// How long a Finish waits for a row that an open transaction holds, or for another lock: all
// of its outcomes together, then each alone, and then what is left but for jobs that somebody
// else is finishing.
const (
	lockedBatch = 250 * time.Millisecond
	lockedRow   = 5 * time.Millisecond
	lockedLast  = 2 * time.Second
)

var lockTimeout = qualify.Text("select set_config('lock_timeout', $1, true)")

// finisher says where outcomes are written, and how.
type finisher struct {
	conn
	lockWait time.Duration // how long each statement waits for a lock; 0: as the connection is set
	own      [][16]byte    // tokens of claims of the same transaction, whose leases do not end before it
}

// steps are the statements given, after one that bounds how long they wait for a lock.
func (f finisher) steps(list ...step) []step {
	if f.lockWait == 0 {
		return list
	}
	return append([]step{{sql: lockTimeout, args: []any{strconv.FormatInt(f.lockWait.Milliseconds(), 10)}}}, list...)
}

// Finish implements dibs.Store.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if err := s.check(ctx, "finish"); err != nil {
		return err
	}
	outcomes, err := checks.Outcomes(outcomes)
	switch {
	case err != nil || len(outcomes) == 0:
		return err
	case len(outcomes) >= mergeBelow:
		return s.finishAlone(ctx, outcomes)
	}
	_, err = s.merged.finishes.Call(ctx, outcomes)
	return gaveUp(ctx, "finish", err)
}

// finishAlone writes checked outcomes. When a job among them is locked, as by a handler
// that left its transaction open, the others are written one by one without it.
// Then it waits for what a short statement has locked: a claim keeps the lock of a job that
// it finds to be another's only after locking it, and tables grow under a lock. On a busy
// machine that takes long.
func (s *Store) finishAlone(ctx context.Context, outcomes []dibs.Outcome) error {
	err := s.finish(ctx, outcomes, finisher{conn: s.db, lockWait: lockedBatch})
	if !isLocked(err) {
		return err
	}
	left := dibs.FinishError{Err: err}
	for i := range outcomes {
		if err := s.finishInto(ctx, &left, outcomes[i:i+1], lockedRow); err != nil {
			return err
		}
	}
	if len(left.Unwritten) == 0 {
		return told(left)
	}
	unwritten := slices.DeleteFunc(slices.Clone(outcomes), func(o dibs.Outcome) bool { return !slices.Contains(left.Unwritten, o.ID) })
	ids, tokens := namesOf(unwritten)
	finishing, err := s.extendOrHeld(ctx, "finish", "held", []any{ids, tokens})
	if err != nil {
		return told(left)
	}
	last := slices.DeleteFunc(unwritten, func(o dibs.Outcome) bool { return finishing[o.ID] })
	left.Unwritten = slices.DeleteFunc(left.Unwritten, func(id int64) bool { return !finishing[id] })
	if len(last) > 0 {
		err = s.finishInto(ctx, &left, last, lockedLast)
	}
	return cmp.Or(err, told(left))
}

// finishInto writes outcomes, and adds to left what is not written.
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

// told is the error of a Finish that wrote all but these, if there are some.
func told(left dibs.FinishError) error {
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
		return classify("finish", err)
	}
	good, err := s.recheck(ctx, lost, f)
	if err != nil {
		return &dibs.FinishError{Err: classify("finish", err), Unwritten: idsOf(lost)}
	}
	if len(good) > 0 {
		isGood := func(o dibs.Outcome) bool { return good[o.ID] }
		again := slices.DeleteFunc(slices.Clone(lost), func(o dibs.Outcome) bool { return !isGood(o) })
		lost = slices.DeleteFunc(lost, isGood)
		still, err := s.write(ctx, again, f)
		if err != nil {
			return &dibs.FinishError{Err: classify("finish", err), Unwritten: idsOf(again), Lost: idsOf(lost)}
		}
		lost = append(lost, still...)
	}
	return told(dibs.FinishError{Lost: idsOf(lost)})
}

// write writes outcomes, and returns those that were refused.
func (s *Store) write(ctx context.Context, outcomes []dibs.Outcome, f finisher) (lost []dibs.Outcome, err error) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b dibs.Outcome) int { return cmp.Compare(a.ID, b.ID) })
	done := finished{}
	begin := done.begin // with the first statement
	var steps []step
	if final, args := finalArgs(outcomes); final > 0 {
		steps = append(steps, step{sql: s.sql.get("complete"), args: append(args, f.own), begin: begin, row: done.scanQueue})
		begin = nil
	}
	if back, args := backArgs(outcomes); back > 0 {
		steps = append(steps, step{sql: s.sql.get("retry"), args: append(args, f.own), begin: begin, row: done.scan})
	}
	if err := f.run(ctx, f.steps(steps...)...); err != nil {
		return nil, err
	}
	for queue, freed := range done.queues {
		if q, _ := s.queues.get(queue); freed || q.Concurrency > 0 {
			s.bell.madeRoom(queue)
		}
	}
	return slices.DeleteFunc(outcomes, func(o dibs.Outcome) bool { return done.ids[o.ID] }), nil
}

// recheck returns those of the outcomes refused whose leases are good: when one is just
// being extended, a finish may see the end that it had before.
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

// finished collects what the statements say they wrote.
type finished struct {
	ids    map[int64]bool
	queues map[string]bool // with whether a group's place became free
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

// stateOf is the state that an outcome leads to, as far as it tells: retry.sql knows the rest.
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

// orNone leaves out a list without elements: most jobs have no result and no error.
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
