package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// How long a Finish waits for a row that an open transaction holds: all of its
// outcomes together, and then each alone.
const (
	lockedBatch = 250 * time.Millisecond
	lockedRow   = 5 * time.Millisecond
)

// waiting bounds how long the statements after it wait for a lock.
func waiting(d time.Duration) step {
	return step{sql: "select set_config('lock_timeout', $1, true)", args: []any{strconv.FormatInt(d.Milliseconds(), 10)}}
}

// Finish implements dibs.Store.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if err := s.check("finish"); err != nil {
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
func (s *Store) finishAlone(ctx context.Context, outcomes []dibs.Outcome) error {
	err := s.finish(ctx, outcomes, s.db, waiting(lockedBatch))
	if !isLocked(err) {
		return err
	}
	left := dibs.UnwrittenError{Err: err}
	for i := range outcomes {
		err := s.finish(ctx, outcomes[i:i+1], s.db, waiting(lockedRow))
		var refused *dibs.LeaseLostError
		switch {
		case err == nil:
		case errors.As(err, &refused):
			left.Lost = append(left.Lost, refused.IDs...)
		case isLocked(err):
			left.IDs = append(left.IDs, outcomes[i].ID)
		default:
			return err
		}
	}
	return told(left)
}

// told is the error of a Finish that wrote all but these, if there are some.
func told(left dibs.UnwrittenError) error {
	switch {
	case len(left.IDs) > 0:
		return &left
	case len(left.Lost) > 0:
		return &dibs.LeaseLostError{IDs: left.Lost}
	}
	return nil
}

// finish writes checked outcomes through c, after the steps given.
func (s *Store) finish(ctx context.Context, outcomes []dibs.Outcome, c conn, steps ...step) error {
	lost, err := s.write(ctx, outcomes, c, steps...)
	if err != nil || len(lost) == 0 {
		return classify("finish", err)
	}
	if good := s.recheck(ctx, lost, c, steps...); len(good) > 0 {
		isGood := func(o dibs.Outcome) bool { return good[o.ID] }
		again := slices.DeleteFunc(slices.Clone(lost), func(o dibs.Outcome) bool { return !isGood(o) })
		lost = slices.DeleteFunc(lost, isGood)
		still, err := s.write(ctx, again, c, steps...)
		if err != nil {
			return &dibs.UnwrittenError{Err: classify("finish", err), IDs: idsOf(again), Lost: idsOf(lost)}
		}
		lost = append(lost, still...)
	}
	return told(dibs.UnwrittenError{Lost: idsOf(lost)})
}

// write writes outcomes, and returns those that were refused.
func (s *Store) write(ctx context.Context, outcomes []dibs.Outcome, c conn, steps ...step) (lost []dibs.Outcome, err error) {
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b dibs.Outcome) int { return cmp.Compare(a.ID, b.ID) })
	done := finished{}
	begin := done.begin // with the first statement
	if final, args := finalArgs(outcomes); final > 0 {
		steps = append(slices.Clip(steps), step{sql: s.sql.get("complete"), args: args, begin: begin, row: done.scanQueue})
		begin = nil
	}
	if back, args := backArgs(outcomes); back > 0 {
		steps = append(slices.Clip(steps), step{sql: s.sql.get("retry"), args: args, begin: begin, row: done.scan})
	}
	if err := c.run(ctx, steps...); err != nil {
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
func (s *Store) recheck(ctx context.Context, lost []dibs.Outcome, c conn, steps ...step) map[int64]bool {
	good := map[int64]bool{}
	ids, tokens := make([]int64, len(lost)), make([][16]byte, len(lost))
	for i, o := range lost {
		ids[i], tokens[i] = o.ID, [16]byte(o.Token)
	}
	err := c.run(ctx, append(slices.Clip(steps), step{
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
	if err != nil {
		return nil // they are refused, as they were
	}
	return good
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

// finalState is the state an ending leads to, or "" for one that gives the job back.
func finalState(e dibs.Ending) dibs.State {
	switch e {
	case dibs.EndCompleted:
		return dibs.Completed
	case dibs.EndDead:
		return dibs.Dead
	case dibs.EndCancelled:
		return dibs.Cancelled
	}
	return ""
}

func finalArgs(outcomes []dibs.Outcome) (n int, args []any) {
	var ids []int64
	var tokens [][16]byte
	var states []string
	var results, errors []*string
	for i := range outcomes {
		o := &outcomes[i]
		state := finalState(o.Ending)
		if state == "" {
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
		if finalState(o.Ending) != "" {
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
	switch o.Ending {
	case dibs.EndRetry, dibs.EndDead:
		return &o.Error
	case dibs.EndCancelled:
		if o.Error != "" {
			return &o.Error
		}
	}
	return nil
}

// Extend implements dibs.Store.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	var out dibs.Extended
	if err := s.check("extend"); err != nil {
		return out, err
	}
	if err := checks.Extend(leases, d); err != nil || len(leases) == 0 {
		return out, err
	}
	if len(leases) >= mergeBelow {
		return s.extendAlone(ctx, extension{leases, d})
	}
	out, err := s.merged.extends.Call(ctx, extension{leases, d})
	return out, gaveUp(ctx, "extend", err)
}

// extendAlone extends checked leases. It tries rows that are locked for a while.
func (s *Store) extendAlone(ctx context.Context, e extension) (out dibs.Extended, err error) {
	leases, d := e.leases, e.d
	left := make(map[int64]dibs.Token, len(leases))
	for _, l := range leases {
		left[l.ID] = l.Token
	}
	// A row may be locked for a moment by another call on it.
	patience := min(d/4, time.Second)
	for pause := 5 * time.Millisecond; ; pause *= 2 {
		if err := s.extendLeft(ctx, left, d, &out); err != nil {
			return dibs.Extended{}, err
		}
		if len(left) == 0 {
			break
		}
		if patience -= pause; patience < 0 {
			return dibs.Extended{}, fmt.Errorf("extend: somebody else's transaction holds the rows of %d jobs, the first of them %d: %w",
				len(left), slices.Min(slices.Collect(maps.Keys(left))), dibs.ErrUnavailable)
		}
		if err := sleep(ctx, pause); err != nil {
			return dibs.Extended{}, classify("extend", err)
		}
	}
	for _, ids := range [][]int64{out.Lost, out.Cancelled, out.Finishing} {
		slices.Sort(ids)
	}
	return out, nil
}

// extendLeft extends what is not locked, and takes it out of left, together with what
// is lost and what a transaction is finishing.
func (s *Store) extendLeft(ctx context.Context, left map[int64]dibs.Token, d time.Duration, out *dibs.Extended) error {
	ids := slices.Sorted(maps.Keys(left))
	tokens := make([][16]byte, len(ids))
	for i, id := range ids {
		tokens[i] = left[id]
	}
	done, err := s.extendOrHeld(ctx, "extend", []any{ids, tokens, d.Microseconds()})
	if err != nil {
		return err
	}
	for id, cancel := range done {
		delete(left, id)
		if cancel {
			out.Cancelled = append(out.Cancelled, id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	held, err := s.extendOrHeld(ctx, "held", []any{ids, tokens})
	if err != nil {
		return err
	}
	for id := range left {
		switch finishing, ok := held[id]; {
		case !ok:
			out.Lost = append(out.Lost, id)
		case finishing:
			out.Finishing = append(out.Finishing, id)
		default:
			continue
		}
		delete(left, id)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// extendOrHeld runs extend.sql or held.sql: ids with what each says of them.
func (s *Store) extendOrHeld(ctx context.Context, name string, args []any) (map[int64]bool, error) {
	held := map[int64]bool{}
	// A heartbeat must not wait for a connection of a pool that transactions have used up.
	err := s.upkeep.run(ctx, step{sql: s.sql.get(name), args: args, begin: func() { clear(held) }, row: func(scan func(...any) error) error {
		var id int64
		var is bool
		err := scan(&id, &is)
		held[id] = is
		return err
	}})
	return held, classify("extend", err)
}
