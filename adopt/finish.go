package adopt

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// how is what is done with a row at the end of a claim.
type how int

const (
	completes how = iota
	dies
	isCancelled
	goesBack
	hows
)

// ended is one outcome of a Finish.
type ended struct {
	dibs.Outcome
	claim     *claim
	how       how
	delay     time.Duration // how long a row that goes back waits
	delayed   bool          // it waits; else it is available at once, in its old place
	uncounted bool
	done      bool
	row       *row // with a side table: the lease
}

// Finish is dibs.Store.Finish. An outcome counts only if the row is still exactly as
// its claim left it and has not ended: what another program has done stays.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return s.finish(ctx, outcomes, s.db, s.find, func(alike bool, f func(adopted.Querier) error) error {
		if alike && s.plan.Dialect.OneStatement { // one statement is a transaction
			return f(s.db)
		}
		return s.write(ctx, f)
	})
}

// finder finds what leases stand for; see find.
type finder func(context.Context, adopted.Querier, []dibs.Lease) ([]*claim, error)

// finish writes outcomes in the transaction that in gives, for outcomes that are alike
// perhaps none; q reads what that sees.
func (s *Store) finish(ctx context.Context, outcomes []dibs.Outcome, q adopted.Querier, find finder, in func(alike bool, f func(adopted.Querier) error) error) error {
	outcomes, err := checks.Outcomes(outcomes)
	if err != nil || len(outcomes) == 0 {
		return err
	}
	if err := s.usable(s.Queue()); err != nil {
		return err
	}
	defer s.alone()()
	all, err := ends(ctx, q, find, outcomes)
	if err != nil {
		return adopted.Classify("finish", err)
	}
	by, kinds := s.byHow(all)
	alike := kinds <= 1 && !s.plan.SideTable
	err = in(alike, func(q adopted.Querier) error {
		if s.plan.SideTable {
			return s.finishLeases(ctx, q, all)
		}
		return s.changeAll(ctx, q, by)
	})
	if err != nil {
		return adopted.Classify("finish", err)
	}
	return s.refused(ctx, q, all)
}

// ends finds what the outcomes are about.
func ends(ctx context.Context, q adopted.Querier, find finder, outcomes []dibs.Outcome) ([]*ended, error) {
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
			o.Error = "" // nothing has failed
		}
		all[i] = &ended{Outcome: o, claim: claims[i]}
	}
	return all, nil
}

// byHow decides what each outcome means, and puts those together that mean the same.
func (s *Store) byHow(all []*ended) (by [hows][]*ended, kinds int) {
	for _, e := range all {
		if e.claim == nil || s.plan.SideTable && e.row == nil {
			continue
		}
		attempts := e.claim.attempt
		if e.row != nil {
			attempts = int(e.row.attempt.Int64) - e.row.excused
		}
		s.decide(e, attempts)
		if by[e.how] = append(by[e.how], e); len(by[e.how]) == 1 {
			kinds++
		}
	}
	return by, kinds
}

// decide says what an outcome means for a row with so many attempts that count.
func (s *Store) decide(e *ended, attempts int) {
	switch e.Ending {
	case dibs.EndCompleted:
		e.how = completes
		return
	case dibs.EndDead:
		e.how = dies
	case dibs.EndCancelled:
		e.how = isCancelled
	case dibs.EndRetry:
		e.how, e.delayed = goesBack, true
		if e.delay = backoff(s.plan.Backoff, attempts); e.Delay != nil {
			e.delay = *e.Delay
		}
		if s.plan.MaxAttempts > 0 && attempts >= s.plan.MaxAttempts {
			e.how = dies
		}
	case dibs.EndSnooze:
		e.how, e.delay, e.delayed, e.uncounted = goesBack, *e.Delay, true, true
	case dibs.EndRelease:
		e.how, e.uncounted = goesBack, true
	}
	if e.how != goesBack && s.plan.Dead == nil && !s.plan.SideTable && (e.how != isCancelled || s.plan.Cancelled == nil) {
		e.how = goesBack // the mapping has no place for it
	}
}

// backoff is the delay after so many attempts; see dibs.Backoff.
func backoff(b dibs.Backoff, attempts int) time.Duration {
	d := min(float64(b.Max), float64(b.Base)*math.Pow(b.Factor, float64(max(attempts, 1)-1)))
	return time.Duration(d * (1 + b.Jitter*(2*rand.Float64()-1)))
}

func (s *Store) changeAll(ctx context.Context, q adopted.Querier, by [hows][]*ended) error {
	for h, some := range by {
		if err := s.change(ctx, q, how(h), some); err != nil {
			return err
		}
	}
	return nil
}

// finishLeases is finish where the side table holds the leases.
func (s *Store) finishLeases(ctx context.Context, q adopted.Querier, all []*ended) error {
	if err := s.lockLeases(ctx, q, all); err != nil {
		return err
	}
	by, _ := s.byHow(all)
	if err := s.changeAll(ctx, q, by); err != nil {
		return err
	}
	return s.settle(ctx, q, all)
}

// change changes the rows of claims that end alike.
func (s *Store) change(ctx context.Context, q adopted.Querier, h how, some []*ended) error {
	if len(some) == 0 {
		return nil
	}
	st := [hows]*adopted.Statement{s.do.Completed, s.do.Dead, s.do.Cancelled, s.do.PutBack}[h]
	if st == nil && h != goesBack { // the side table alone tells that it is dead
		st = s.do.PutBack
	}
	if st == nil { // nothing is written into the row
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
			e.done = true
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
			it.Base = e.row.claimed
		}
	}
	if e.uncounted {
		it.Uncount = 1
	}
	if e.claim.own {
		it.Own = 1
	}
	return it
}

// lockLeases finds which outcomes the side table still lets count.
func (s *Store) lockLeases(ctx context.Context, q adopted.Querier, all []*ended) error {
	var items []item
	byKey := map[string]*ended{}
	for _, e := range all {
		if e.claim != nil {
			byKey[e.claim.key] = e
			it := item{Key: sideKey(e.claim.key), Token: e.Token.String()}
			if e.claim.own {
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
		byKey[r.key].row = r
	}
	return err
}

// settle ends the leases of rows that were changed, and of those that somebody else
// has ended or put back.
func (s *Store) settle(ctx context.Context, q adopted.Querier, all []*ended) error {
	states, err := s.missed(ctx, q, all)
	if err != nil {
		return err
	}
	var drop, keep []item
	for _, e := range all {
		if e.row == nil {
			continue
		}
		state := states[e.claim.key] // empty if the row is not there
		switch {
		case e.done && (e.how == goesBack || e.how != completes && s.plan.Dead == nil):
			keep = append(keep, s.settled(e.row, e))
		case !e.done && (state == adopted.StateLoose || state == adopted.StateElsewhere && e.row.own):
			keep = append(keep, s.settled(e.row, &ended{how: goesBack}))
		case e.done, state == "", state == adopted.StateEnded:
			drop = append(drop, item{Key: sideKey(e.claim.key)})
		} // the others are locked by somebody who has not committed
	}
	return s.settleLeases(ctx, q, drop, keep)
}

// missed tells how the rows are that were leased and could not be changed.
func (s *Store) missed(ctx context.Context, q adopted.Querier, all []*ended) (map[string]string, error) {
	var keys []item
	for _, e := range all {
		if e.row != nil && !e.done {
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
		if _, err := q.ExecContext(ctx, f.st.Text, f.st.Args(map[string]any{"batch": batch(f.items)})...); err != nil {
			return err
		}
	}
	return nil
}

// settled is what becomes of a lease whose row stays.
func (s *Store) settled(r *row, e *ended) item {
	runAt := 0.0 // in its old place
	if e.delayed && e.how == goesBack && e.delay > 0 {
		runAt = float64(r.claimed + e.delay.Microseconds()) // from when its lease was found good
	}
	it := item{Key: sideKey(r.key), Delay: &runAt}
	if e.uncounted {
		it.Uncount = 1
	}
	if e.how != goesBack {
		it.Dead = 1
	}
	if e.Error != "" {
		r.errors = checks.History(r.errors, dibs.AttemptError{
			Attempt: int(r.attempt.Int64), At: time.UnixMicro(r.claimed).UTC(), Worker: r.worker.String, Error: e.Error,
		})
	}
	if len(r.errors) > 0 {
		raw, _ := json.Marshal(r.errors) // texts, numbers and times of our own
		it.Error = string(raw)
	}
	return it
}

// refused makes the error of the outcomes that did not count, and wakes whom the
// others make room for.
func (s *Store) refused(ctx context.Context, q adopted.Querier, all []*ended) error {
	var missing []dibs.Lease
	var lost []int64
	room := false
	for _, e := range all {
		l := dibs.Lease{ID: e.ID, Token: e.Token}
		switch {
		case e.done:
			s.held.drop(l)
			room = room || e.how == goesBack || s.plan.Mapping.Group.Column != "" || s.plan.Concurrency > 0
		case e.claim == nil:
			lost = append(lost, e.ID)
		default:
			missing = append(missing, l)
		}
	}
	if room {
		s.wakers.wake()
	}
	holds, err := s.stillHeld(ctx, q, missing)
	if err != nil {
		return adopted.Classify("finish", err)
	}
	var locked []int64
	for _, l := range missing {
		if holds[l] {
			locked = append(locked, l.ID)
			continue
		}
		lost = append(lost, l.ID)
		s.held.drop(l)
	}
	if len(locked)+len(lost) == 0 {
		return nil
	}
	return &dibs.FinishError{Lost: lost, Unwritten: locked, Err: errLocked}
}
