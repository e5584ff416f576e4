package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// effect says what an outcome does to its row.
type effect int

const (
	effectCompleted effect = iota
	effectDead
	effectCancelled
	effectPutBack
	effects // number of effects
)

// ended is one outcome of a Finish, with what becomes of its row.
type ended struct {
	dibs.Outcome
	claim     *claim        // nil: the lease is lost
	effect    effect        // what the outcome does to the row
	delay     time.Duration // how long the row waits if it is put back
	delayed   bool          // whether the row waits; else it is available at once, in its old place
	uncounted bool          // the attempt does not count
	written   bool          // a statement has changed the row
	lease     *row          // lease in the side table
}

// Finish is dibs.Store.Finish. It changes a row only if it is still exactly as its claim left
// it and has not ended: changes of other programs stay. For a lease that another store has
// claimed, call [Store.ID] with Job.Key first unless the id is a whole number.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	over, err := s.finish(ctx, outcomes, s.db, s.findClaims, func(alike bool, f func(adopted.Querier) error) error {
		if alike && s.plan.Dialect.OneStatement { // a single statement needs no transaction around it
			return f(s.db)
		}
		return s.write(ctx, f)
	})
	for _, l := range over {
		s.held.drop(l)
	}
	s.waits.Ended(func() []int64 {
		ids := make([]int64, len(over))
		for i, l := range over {
			ids[i] = l.ID
		}
		return ids
	})
	return err
}

// finder finds the claims of leases; see Store.findClaims.
type finder func(context.Context, adopted.Querier, []dibs.Lease) ([]*claim, error)

// finish writes outcomes in a transaction that runTx begins. If they all have the same effect
// (alike), one statement is enough. q reads rows as that transaction sees them. The leases in
// over have ended once it is committed.
func (s *Store) finish(ctx context.Context, outcomes []dibs.Outcome, q adopted.Querier, find finder, runTx func(alike bool, f func(adopted.Querier) error) error) (over []dibs.Lease, err error) {
	outcomes, err = checks.Outcomes(outcomes)
	if err != nil || len(outcomes) == 0 {
		return nil, err
	}
	for i := range outcomes {
		if len(outcomes[i].Add) > 0 {
			return nil, &dibs.InvalidError{Field: fmt.Sprintf("outcomes[%d].add", i), Reason: "an adopted table gets its rows from its own program, so no outcome can add jobs to it"}
		}
	}
	if err := s.usable(s.Queue()); err != nil {
		return nil, err
	}
	defer s.lockFences()()
	all, err := findEnded(ctx, q, find, outcomes)
	if err != nil {
		return nil, adopted.Classify("finish", err)
	}
	byEffect, used := s.groupByEffect(all)
	alike := used <= 1 && !s.plan.SideTable
	err = runTx(alike, func(q adopted.Querier) error {
		for _, e := range all {
			e.written, e.lease = false, nil
		}
		if s.plan.SideTable {
			return s.finishLeases(ctx, q, all)
		}
		return s.changeAll(ctx, q, byEffect)
	})
	if err != nil {
		return nil, adopted.Classify("finish", err)
	}
	return s.finishError(ctx, q, all)
}

// findEnded finds the claim of each outcome.
func findEnded(ctx context.Context, q adopted.Querier, find finder, outcomes []dibs.Outcome) ([]*ended, error) {
	leases := make([]dibs.Lease, len(outcomes))
	for i, o := range outcomes {
		leases[i] = dibs.Lease{ID: o.ID, Token: o.Token}
	}
	claims, err := find(ctx, q, leases)
	if err != nil {
		return nil, err
	}
	all := make([]*ended, len(outcomes))
	for i, o := range outcomes {
		if o.Ending == dibs.EndCompleted || o.Ending == dibs.EndSnooze || o.Ending == dibs.EndRelease {
			o.Error = "" // the attempt has not failed
		}
		all[i] = &ended{Outcome: o, claim: claims[i]}
	}
	return all, nil
}

// groupByEffect decides the effect of each outcome, and groups the outcomes by it. used is the
// number of different effects.
func (s *Store) groupByEffect(all []*ended) (byEffect [effects][]*ended, used int) {
	for _, e := range all {
		if e.claim == nil || s.plan.SideTable && e.lease == nil {
			continue
		}
		attempts := e.claim.attempt
		if e.lease != nil {
			attempts = int(e.lease.attempt.Int64) - e.lease.excused
		}
		s.decide(e, attempts)
		if byEffect[e.effect] = append(byEffect[e.effect], e); len(byEffect[e.effect]) == 1 {
			used++
		}
	}
	return byEffect, used
}

// decide sets the effect of an outcome on a row with that many counted attempts.
func (s *Store) decide(e *ended, attempts int) {
	switch e.Ending {
	case dibs.EndCompleted:
		e.effect = effectCompleted
		return
	case dibs.EndDead:
		e.effect = effectDead
	case dibs.EndCancelled:
		e.effect = effectCancelled
	case dibs.EndRetry:
		e.effect, e.delayed = effectPutBack, true
		if e.delay = s.plan.Backoff.Delay(attempts, 2*rand.Float64()-1); e.Delay != nil {
			e.delay = *e.Delay
		}
		if e.claim.most > 0 && attempts >= e.claim.most {
			e.effect = effectDead
		}
	case dibs.EndSnooze:
		e.effect, e.delay, e.delayed, e.uncounted = effectPutBack, *e.Delay, true, true
	case dibs.EndRelease:
		e.effect, e.uncounted = effectPutBack, true
	}
	if e.effect != effectPutBack && s.plan.Dead == nil && !s.plan.SideTable && (e.effect != effectCancelled || s.plan.Cancelled == nil) {
		e.effect = effectPutBack // the mapping does not say how a row is dead or cancelled
	}
}

func (s *Store) changeAll(ctx context.Context, q adopted.Querier, byEffect [effects][]*ended) error {
	for i, some := range byEffect {
		if err := s.change(ctx, q, effect(i), some); err != nil {
			return err
		}
	}
	return nil
}

// finishLeases writes outcomes if the side table holds the leases.
func (s *Store) finishLeases(ctx context.Context, q adopted.Querier, all []*ended) error {
	if err := s.lockLeases(ctx, q, all); err != nil {
		return err
	}
	byEffect, _ := s.groupByEffect(all)
	if err := s.changeAll(ctx, q, byEffect); err != nil {
		return err
	}
	return s.settle(ctx, q, all)
}

// change writes one effect into the rows of its outcomes.
func (s *Store) change(ctx context.Context, q adopted.Querier, f effect, some []*ended) error {
	if len(some) == 0 {
		return nil
	}
	st := [effects]*adopted.Statement{s.do.Completed, s.do.Dead, s.do.Cancelled, s.do.PutBack}[f]
	if st == nil && f != effectPutBack { // only the side table marks the row as dead
		st = s.do.PutBack
	}
	if st == nil { // the row itself does not change
		st = s.do.Open
	}
	items := make([]item, len(some))
	byKey := make(map[string]*ended, len(some))
	for i, e := range some {
		byKey[e.claim.key] = e
		items[i] = e.item(s.plan.SideTable)
	}
	rows, err := run(ctx, q, st, map[string]any{"batch": batch(items)}, scanKey)
	for _, r := range rows {
		if e := byKey[r.key]; e != nil {
			e.written = true
		}
	}
	return err
}

func (e *ended) item(side bool) item {
	it := item{Key: json.RawMessage(e.claim.key), Error: e.Error, Result: string(e.Result)}
	if !side && e.claim.fence != "" {
		it.Fence = json.RawMessage(e.claim.fence)
	}
	if e.delayed {
		d := e.delay.Seconds()
		it.Delay = &d
		if side {
			it.Base = e.lease.claimed
		}
	}
	if e.uncounted {
		it.Uncount = 1
	}
	if e.claim.sameTx {
		it.Own = 1
	}
	return it
}

// lockLeases locks the leases of the outcomes in the side table, and finds those that still hold.
func (s *Store) lockLeases(ctx context.Context, q adopted.Querier, all []*ended) error {
	var items []item
	byKey := map[string]*ended{}
	for _, e := range all {
		if e.claim != nil {
			byKey[e.claim.key] = e
			it := item{Key: sideKey(e.claim.key), Token: e.Token.String()}
			if e.claim.sameTx {
				it.Own = 1
			}
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return nil
	}
	rows, err := run(ctx, q, s.do.Held, map[string]any{"batch": batch(items)}, scanHeld)
	for _, r := range rows {
		byKey[r.key].lease = r
	}
	return err
}

// settle ends the leases of rows that were changed, and of rows that another program has ended
// or put back.
func (s *Store) settle(ctx context.Context, q adopted.Querier, all []*ended) error {
	states, err := s.unwrittenStates(ctx, q, all)
	if err != nil {
		return err
	}
	var drop, keep []item
	for _, e := range all {
		if e.lease == nil {
			continue
		}
		state := states[e.claim.key] // empty if the row has been deleted
		switch {
		case e.written && (e.effect == effectPutBack || e.effect != effectCompleted && s.plan.Dead == nil):
			keep = append(keep, settleItem(e.lease, e))
		case !e.written && (state == adopted.StateOverruled || state == adopted.StateElsewhere && e.lease.ownQueue):
			keep = append(keep, settleItem(e.lease, &ended{effect: effectPutBack}))
		case e.written, state == "", state == adopted.StateEnded:
			drop = append(drop, item{Key: sideKey(e.claim.key)})
		} // another transaction has locked the other rows and not committed
	}
	return s.settleLeases(ctx, q, drop, keep)
}

// unwrittenStates reads the states of rows whose leases hold but that no statement has changed.
func (s *Store) unwrittenStates(ctx context.Context, q adopted.Querier, all []*ended) (map[string]string, error) {
	var keys []item
	for _, e := range all {
		if e.lease != nil && !e.written {
			keys = append(keys, item{Key: json.RawMessage(e.claim.key)})
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	rows, err := s.fetch(ctx, q, keys)
	states := make(map[string]string, len(rows))
	for _, r := range rows {
		states[r.key] = r.state
	}
	return states, err
}

func (s *Store) settleLeases(ctx context.Context, q adopted.Querier, drop, keep []item) error {
	for _, f := range []struct {
		st    *adopted.Statement
		items []item
	}{{s.do.Drop, drop}, {s.do.Settle, keep}} {
		if len(f.items) == 0 {
			continue
		}
		if err := f.st.Exec(ctx, q, map[string]any{"batch": batch(f.items)}); err != nil {
			return err
		}
	}
	return nil
}

// settleItem is the element of lease_settle.sql's batch for the lease of a row that stays.
func settleItem(lease *row, e *ended) item {
	runAt := 0.0 // 0: available at once, in its old place
	if e.delayed && e.effect == effectPutBack && e.delay > 0 {
		runAt = float64(lease.claimed + e.delay.Microseconds()) // claimed is the time at which the lease was read
	}
	it := item{Key: sideKey(lease.key), Delay: &runAt}
	if e.uncounted {
		it.Uncount = 1
	}
	if e.effect != effectPutBack {
		it.Dead = 1
	}
	if e.Error != "" {
		lease.errors = checks.History(lease.errors, dibs.AttemptError{
			Attempt: int(lease.attempt.Int64), At: time.UnixMicro(lease.claimed).UTC(), Worker: lease.worker.String, Error: e.Error,
		})
	}
	if len(lease.errors) > 0 {
		raw, _ := json.Marshal(lease.errors) // no error: it holds texts, numbers and times
		it.Error = string(raw)
	}
	return it
}

// finishError returns the error for outcomes that were not written, and the leases that are
// over. It wakes workers if the written outcomes make rows available.
func (s *Store) finishError(ctx context.Context, q adopted.Querier, all []*ended) (over []dibs.Lease, err error) {
	var missing []dibs.Lease
	var lost []int64
	available := false
	for _, e := range all {
		l := dibs.Lease{ID: e.ID, Token: e.Token}
		switch {
		case e.written:
			over = append(over, l)
			available = available || e.effect == effectPutBack || s.plan.Mapping.Group.Column != "" || s.plan.Concurrency > 0
		case e.claim == nil:
			lost = append(lost, e.ID)
		default:
			missing = append(missing, l)
		}
	}
	if available {
		s.wakers.wake()
	}
	holds, err := s.stillHeld(ctx, q, missing)
	if err != nil {
		return over, adopted.Classify("finish", err)
	}
	var locked []int64
	for _, l := range missing {
		if holds[l] {
			locked = append(locked, l.ID)
			continue
		}
		lost, over = append(lost, l.ID), append(over, l)
	}
	switch {
	case len(locked) > 0:
		return over, &dibs.FinishError{Lost: lost, Unwritten: locked, Err: errLocked}
	case len(lost) > 0:
		return over, &dibs.FinishError{Lost: lost}
	}
	return over, nil
}
