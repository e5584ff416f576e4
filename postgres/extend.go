package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Extend implements dibs.Store.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	var out dibs.Extended
	leases, err := checks.Extend(leases, d)
	if err = s.ready(ctx, "extend", err); err != nil || len(leases) == 0 {
		return out, err
	}
	if len(leases) >= mergeBelow {
		return s.extendAlone(ctx, extension{leases, d})
	}
	out, err = s.merged.extends.Call(ctx, extension{leases, d})
	return out, gaveUp(ctx, "extend", err)
}

// extendAlone extends checked leases. For a while it tries again rows that are locked.
func (s *Store) extendAlone(ctx context.Context, e extension) (out dibs.Extended, err error) {
	leases, d := e.leases, e.d
	left := make(map[int64]dibs.Lease, len(leases))
	for _, l := range leases {
		left[l.ID] = l
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
			return dibs.Extended{}, checks.Failed("extend", fmt.Errorf("somebody else's transaction holds the rows of %d jobs, the first of them %d: %w",
				len(left), slices.Min(slices.Collect(maps.Keys(left))), dibs.ErrUnavailable))
		}
		if err := sleep(ctx, pause); err != nil {
			return dibs.Extended{}, wrap("extend", err)
		}
	}
	for _, ids := range [][]int64{out.Lost, out.Cancelled, out.Finishing, out.TimedOut} {
		slices.Sort(ids)
	}
	return out, nil
}

// extendLeft extends the leases in left, and removes from left all but those of locked
// rows: the extended, the lost, and those that a transaction is finishing.
func (s *Store) extendLeft(ctx context.Context, left map[int64]dibs.Lease, d time.Duration, out *dibs.Extended) error {
	ids := slices.Sorted(maps.Keys(left))
	tokens := make([][16]byte, len(ids))
	var progress []*string // nil unless there is any
	for i, id := range ids {
		tokens[i] = left[id].Token
		if p := left[id].Progress; p != nil {
			if progress == nil {
				progress = make([]*string, len(ids))
			}
			raw, _ := json.Marshal(p) // it always encodes
			progress[i] = text(string(raw))
		}
	}
	done, timedOut, err := s.extendHeld(ctx, []any{ids, tokens, d.Microseconds(), progress})
	if err != nil {
		return err
	}
	for id, cancel := range done {
		delete(left, id)
		if cancel {
			out.Cancelled = append(out.Cancelled, id)
		}
	}
	out.TimedOut = append(out.TimedOut, timedOut...)
	if len(left) == 0 {
		return nil
	}
	held, err := s.held(ctx, "extend", []any{ids, tokens})
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

// extendHeld runs extend.sql: of the extended jobs, whether they are to be cancelled, and those that
// have run longer than their queues allow.
func (s *Store) extendHeld(ctx context.Context, args []any) (cancelled map[int64]bool, timedOut []int64, err error) {
	cancelled = map[int64]bool{}
	var id int64
	var cancel, over bool
	// An Extend must not wait for the pool, whose connections transactions may have used up.
	err = s.upkeep.run(ctx, step{sql: s.sql.get("extend"), args: args, begin: func() { clear(cancelled); timedOut = nil }, row: func(scan func(...any) error) error {
		err := scan(&id, &cancel, &over)
		if cancelled[id] = cancel; over {
			timedOut = append(timedOut, id)
		}
		return err
	}})
	return cancelled, timedOut, wrap("extend", err)
}

// held runs held.sql: of the jobs whose tokens are good, whether a transaction is finishing them.
func (s *Store) held(ctx context.Context, op string, args []any) (map[int64]bool, error) {
	held := map[int64]bool{}
	err := s.upkeep.run(ctx, step{sql: s.sql.get("held"), args: args, begin: func() { clear(held) }, row: func(scan func(...any) error) error {
		var id int64
		var is bool
		err := scan(&id, &is)
		held[id] = is
		return err
	}})
	return held, wrap(op, err)
}
