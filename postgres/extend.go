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

// extendAlone extends checked leases. It tries rows that are locked again for a while.
func (s *Store) extendAlone(ctx context.Context, e extension) (out dibs.Extended, err error) {
	leases, d := e.leases, e.d
	left := make(map[int64]dibs.Lease, len(leases))
	for _, l := range leases {
		left[l.ID] = l
	}
	// Another call on the same job may lock its row for a moment.
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

// extendLeft extends the leases in left. It removes from left those that were extended, those
// that are lost, and those whose jobs a transaction is finishing; leases on locked rows stay.
func (s *Store) extendLeft(ctx context.Context, left map[int64]dibs.Lease, d time.Duration, out *dibs.Extended) error {
	ids := slices.Sorted(maps.Keys(left))
	tokens := make([][16]byte, len(ids))
	var progress []*string // stays nil if no lease has a progress
	for i, id := range ids {
		tokens[i] = left[id].Token
		if p := left[id].Progress; p != nil {
			if progress == nil {
				progress = make([]*string, len(ids))
			}
			raw, _ := json.Marshal(p) // it always encodes
			progress[i] = new(string(raw))
		}
	}
	type extended struct {
		id           int64
		cancel, over bool // cancel: somebody asked to cancel the job; over: the attempt has run longer than its queue allows
	}
	var done []extended
	extend := collect(s.step("extend", ids, tokens, d.Microseconds(), progress), &done, func(e *extended) []any { return []any{&e.id, &e.cancel, &e.over} })
	if err := s.upkeep.run(ctx, extend); err != nil { // by upkeep's connections: transactions may have used up the pool, and an Extend must not wait for them
		return wrap("extend", err)
	}
	for _, e := range done {
		delete(left, e.id)
		if e.cancel {
			out.Cancelled = append(out.Cancelled, e.id)
		}
		if e.over {
			out.TimedOut = append(out.TimedOut, e.id)
		}
	}
	if len(left) == 0 {
		return nil
	}
	held, err := s.held(ctx, "extend", ids, tokens)
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

// held runs held.sql: of the jobs whose tokens are good, whether a transaction is finishing them.
func (s *Store) held(ctx context.Context, op string, ids []int64, tokens [][16]byte) (map[int64]bool, error) {
	type heldJob struct {
		id        int64
		finishing bool
	}
	var list []heldJob
	err := s.upkeep.run(ctx, collect(s.step("held", ids, tokens), &list, func(h *heldJob) []any { return []any{&h.id, &h.finishing} }))
	held := make(map[int64]bool, len(list))
	for _, h := range list {
		held[h.id] = h.finishing
	}
	return held, wrap(op, err)
}
