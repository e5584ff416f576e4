package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Finish implements dibs.Store.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return s.finish(ctx, outcomes, false, s.db)
}

// finish writes outcomes through c; keep says to keep completed jobs whatever the
// retention.
func (s *Store) finish(ctx context.Context, outcomes []dibs.Outcome, keep bool, c conn) error {
	if err := s.check("finish"); err != nil {
		return err
	}
	outcomes, err := checks.Outcomes(outcomes)
	if err != nil || len(outcomes) == 0 {
		return err
	}
	slices.SortFunc(outcomes, func(a, b dibs.Outcome) int { return cmp.Compare(a.ID, b.ID) })
	done := finished{}
	steps := []step{}
	if final, args := finalArgs(outcomes); final > 0 {
		steps = append(steps, step{sql: s.sql.get("complete"), args: append(args, keep), begin: done.begin, row: done.scan})
	}
	if back, args := backArgs(outcomes); back > 0 {
		st := step{sql: s.sql.get("retry"), args: args, row: done.scan}
		if len(steps) == 0 {
			st.begin = done.begin
		}
		steps = append(steps, st)
	}
	if err := c.run(ctx, steps...); err != nil {
		return classify("finish", err)
	}
	for queue, freed := range done.queues {
		s.queues.lanesOf(queue).lower()
		if freed {
			s.Wake(queue)
		}
	}
	return refused(outcomes, done.ids)
}

// finished collects what the statements say they wrote.
type finished struct {
	ids    map[int64]bool
	queues map[string]bool // with whether a group's place became free
}

func (f *finished) begin() { f.ids, f.queues = map[int64]bool{}, map[string]bool{} }

func (f *finished) scan(scan func(...any) error) error {
	var id int64
	var queue string
	var freed bool
	err := scan(&id, &queue, &freed)
	f.ids[id] = true
	f.queues[queue] = f.queues[queue] || freed
	return err
}

func refused(outcomes []dibs.Outcome, written map[int64]bool) error {
	var lost []int64
	for _, o := range outcomes {
		if !written[o.ID] {
			lost = append(lost, o.ID)
		}
	}
	if lost != nil {
		return &dibs.LeaseLostError{IDs: lost}
	}
	return nil
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
	return len(ids), []any{ids, tokens, states, results, errors}
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
	sorted := slices.Clone(leases)
	slices.SortFunc(sorted, func(a, b dibs.Lease) int { return cmp.Compare(a.ID, b.ID) })
	ids, tokens := make([]int64, len(sorted)), make([][16]byte, len(sorted))
	for i, l := range sorted {
		ids[i], tokens[i] = l.ID, l.Token
	}
	held, err := s.extendOrHeld(ctx, "extend", []any{ids, tokens, d.Microseconds()})
	if err != nil {
		return out, err
	}
	if len(held) < len(ids) {
		// The missing ones are lost, or locked by a transaction that finishes them.
		locked, err := s.extendOrHeld(ctx, "held", []any{ids, tokens})
		if err != nil {
			return out, err
		}
		for id, cancel := range locked {
			held[id] = cancel
		}
	}
	for _, id := range ids {
		switch cancel, ok := held[id]; {
		case !ok:
			out.Lost = append(out.Lost, id)
		case cancel:
			out.Cancelled = append(out.Cancelled, id)
		}
	}
	return out, nil
}

// extendOrHeld runs extend.sql or held.sql: ids with whether to cancel them.
func (s *Store) extendOrHeld(ctx context.Context, name string, args []any) (map[int64]bool, error) {
	held := map[int64]bool{}
	err := s.db.run(ctx, step{sql: s.sql.get(name), args: args, begin: func() { clear(held) }, row: func(scan func(...any) error) error {
		var id int64
		var cancel bool
		err := scan(&id, &cancel)
		held[id] = cancel
		return err
	}})
	return held, classify("extend", err)
}
