package interleave

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dibs-queue/dibs"
)

// effect is a transaction's change of one job.
type effect string

const (
	claimed  effect = "claimed"
	resumed  effect = "resumed"
	extended effect = "extended"
	finished effect = "finished" // includes jobs that were given back
	expired  effect = "expired"
	enqueued effect = "enqueued"
	requeued effect = "requeued"
	ended    effect = "cancelled or completed unclaimed"
	asked    effect = "asked to be cancelled"
	edited   effect = "edited"
)

// allowedEffects lists what each verb's transactions may do to jobs. Giving a group's
// places is no effect, since every verb may do it.
var allowedEffects = map[string][]effect{
	"claim":       {claimed, expired}, // a claim may sweep first
	"resume":      {resumed},
	"extend":      {extended},
	"finish":      {finished, enqueued},
	"sweep":       {expired},
	"enqueue":     {enqueued},
	"requeue":     {requeued, revived},
	"cancel":      {ended, asked},
	"edit":        {edited},
	"transaction": {claimed, expired, ended, edited, finished, enqueued},
	"settle":      {expired}, // it may be a sweep
}

// committed checks the changes that one transaction of a call committed.
func (w *world) committed(actor int, k *call, old, now State) error {
	for id := range w.everLive {
		b, wasLive := old.Jobs[id]
		j, isLive := now.Jobs[id]
		if _, final := now.Final[id]; final && isLive {
			return fmt.Errorf("job %d is live and final", id)
		}
		if !wasLive && !isLive {
			if old.Final[id] != now.Final[id] {
				return fmt.Errorf("final job %d was %q and is %q", id, old.Final[id], now.Final[id])
			}
			continue
		}
		if err := k.record(id, difference(k, b, wasLive, j, isLive), b, j); err != nil {
			return err
		}
	}
	for _, id := range slices.AppendSeq(slices.Collect(maps.Keys(now.Jobs)), maps.Keys(now.Final)) {
		if !w.everLive[id] {
			w.everLive[id] = true
			if err := k.record(id, enqueued, Job{}, now.Jobs[id]); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(unique(now), k.flows(old, now)); err != nil {
		return err
	}
	return w.limits(actor, k, now)
}

// difference names the change of a job between two states.
func difference(k *call, old Job, wasLive bool, now Job, isLive bool) effect {
	gone := func() effect {
		named := slices.ContainsFunc(k.outcomes, func(o dibs.Outcome) bool { return o.Token == old.Token })
		if k.verb == "sweep" || k.verb == "settle" || k.verb == "claim" || k.verb == "transaction" && !named {
			return expired
		}
		return finished
	}
	id := max(old.ID, now.ID)
	switch {
	case !wasLive && !contains(k.ids, id):
		return revived
	case !wasLive:
		return requeued
	case !isLive && old.claimed():
		return gone()
	case !isLive && old.Waits && !contains(k.ids, id):
		return unneeded
	case !isLive:
		return ended
	case old.Waits && !now.Waits:
		return released
	case old.claimed() && !now.claimed():
		return gone()
	case !old.claimed() && now.claimed():
		return claimed
	case old.Token != now.Token && (k.verb == "claim" || k.verb == "transaction"):
		return claimed // the lease expired first, in the same transaction
	case old.Token != now.Token:
		return resumed
	case !old.LeaseUntil.Equal(now.LeaseUntil):
		return extended
	case old.Cancel != now.Cancel:
		return asked
	case old.Attempt != now.Attempt || old.Priority != now.Priority || !old.RunAt.Equal(now.RunAt):
		return edited
	}
	return ""
}

// record checks that the call may change the job in this way, and records the effect.
func (k *call) record(id int64, e effect, old, now Job) error {
	if e == "" {
		return nil
	}
	if e != released && e != unneeded && !slices.Contains(allowedEffects[k.verb], e) {
		return fmt.Errorf("job %d was %s", id, e)
	}
	if was, ok := k.effects[id]; ok {
		return fmt.Errorf("job %d was %s and then %s by one call", id, was, e)
	}
	k.effects[id] = e
	if e != enqueued && e != requeued && now.Attempt != 0 && now.Attempt < old.Attempt {
		return fmt.Errorf("job %d: attempt %d after %d", id, now.Attempt, old.Attempt)
	}
	over := !old.LeaseUntil.After(k.clock)
	switch e {
	case claimed:
		if old.claimed() && !over {
			return fmt.Errorf("job %d was claimed at %v, its lease ends at %v", id, k.clock, old.LeaseUntil)
		}
		if old.Waits || now.Waits {
			return fmt.Errorf("job %d was claimed while it waited for others", id)
		}
		if now.Attempt != old.Attempt+1 || old.RunAt.After(k.clock) {
			return fmt.Errorf("job %d, due %v, was claimed at %v: attempt %d after %d", id, old.RunAt, k.clock, now.Attempt, old.Attempt)
		}
	case finished:
		if over || !slices.ContainsFunc(k.outcomes, func(o dibs.Outcome) bool { return o.ID == id && o.Token == old.Token }) {
			return fmt.Errorf("job %d was finished without a good token: its lease ends at %v, the time is %v", id, old.LeaseUntil, k.clock)
		}
	case extended:
		if over || !slices.Contains(k.leases, dibs.Lease{ID: id, Token: old.Token}) {
			return fmt.Errorf("job %d was extended without a good token", id)
		}
	case resumed:
		if over {
			return fmt.Errorf("job %d was resumed after its lease", id)
		}
	case expired:
		if !over {
			return fmt.Errorf("job %d was taken away at %v, its lease ends at %v", id, k.clock, old.LeaseUntil)
		}
	case requeued, asked:
		if !contains(k.ids, id) {
			return fmt.Errorf("job %d was %s, but the call did not name it", id, e)
		}
	}
	return nil
}

// unique checks that no key has two holders.
func unique(now State) error {
	holders := map[string]int64{}
	for id, j := range now.Jobs {
		if other, ok := holders[j.Key]; ok && j.HoldsKey {
			return fmt.Errorf("jobs %d and %d hold the key %q", id, other, j.Key)
		}
		if j.HoldsKey {
			holders[j.Key] = id
		}
	}
	return nil
}

// limits checks the jobs that a call has just started against the highest limits since
// the call began, since a change of the limits meanwhile may count as later than the call.
func (w *world) limits(actor int, k *call, now State) error {
	during := w.states[k.startState:]
	highest := func(limit func(State) int) (n int) {
		for _, s := range during {
			n = max(n, limit(s))
		}
		return n
	}
	for id, e := range k.effects {
		if e != claimed {
			continue
		}
		if !slices.ContainsFunc(during, func(s State) bool { return !s.Paused }) {
			return fmt.Errorf("job %d was claimed from a paused queue", id)
		}
		group := now.Jobs[id].Group
		limit := highest(func(s State) int { return s.groupLimit(group) })
		if n := now.running(group) + w.heldInTx(actor, group); group != "" && n > limit {
			return fmt.Errorf("%d jobs of group %s run, the limit is %d", n, group, limit)
		}
		if slices.ContainsFunc(during, func(s State) bool { return s.Concurrency == 0 }) {
			continue
		}
		limit = highest(func(s State) int { return s.Concurrency })
		if n := now.running("") + w.heldInTx(actor, ""); n > limit {
			return fmt.Errorf("%d jobs run, the limit is %d", n, limit)
		}
	}
	return nil
}

// heldInTx counts the jobs that other actors' open transactions have claimed.
func (w *world) heldInTx(actor int, group string) (n int) {
	for i, c := range w.clients {
		for _, j := range c.claimedInTx {
			if i != actor && (group == "" || j.Group == group) {
				n++
			}
		}
	}
	return n
}

// answered compares a call's answer with what its transactions did.
func (w *world) answered(k *call) error {
	if k.err != nil {
		return k.err
	}
	did := slices.DeleteFunc(slices.Sorted(maps.Keys(k.effects)), func(id int64) bool {
		e := k.effects[id]
		return e == released || e == unneeded || e == revived || e == enqueued && k.verb == "finish" // no answer names these
	})
	switch k.verb {
	case "sweep":
		if k.expired != len(did) {
			return fmt.Errorf("the sweep took away %d jobs, the answer is %d", len(did), k.expired)
		}
		return nil
	case "cancel", "edit", "extend", "transaction": // the answer may also name unchanged jobs
		for _, id := range did {
			if !contains(k.changed, id) && k.effects[id] != expired {
				return fmt.Errorf("job %d was %s, but the answer does not name it", id, k.effects[id])
			}
		}
	case "transaction undone", "set queue", "set group", "settle":
	default:
		did = slices.DeleteFunc(did, func(id int64) bool { return k.verb == "claim" && k.effects[id] == expired })
		if slices.Sort(k.changed); !slices.Equal(did, k.changed) {
			return fmt.Errorf("jobs %v were changed, the answer says %v", did, k.changed)
		}
	}
	last := w.states[len(w.states)-1]
	for _, id := range k.lost {
		for _, o := range k.outcomes {
			if j := last.Jobs[id]; o.ID == id && o.Token == j.Token && j.LeaseUntil.After(last.Now) && !k.disturbed {
				return fmt.Errorf("a good token of job %d was refused", id)
			}
		}
	}
	for _, j := range k.jobs {
		if now := last.Jobs[j.ID]; now.Token == j.Token && now.Attempt != j.Attempt {
			return fmt.Errorf("job %d: the claim returned attempt %d, the database has %d", j.ID, j.Attempt, now.Attempt)
		}
	}
	if k.verb == "enqueue" {
		return w.existing(k)
	}
	if k.verb == "claim" {
		return w.inOrder(k)
	}
	return nil
}

// existing checks that the jobs which the answer names as holders of a key held one.
func (w *world) existing(k *call) error {
	for _, id := range k.ids {
		if !slices.ContainsFunc(w.states[k.startState:], func(s State) bool { return s.Jobs[id].HoldsKey }) {
			return fmt.Errorf("the answer names job %d as the holder of a key, but it held none", id)
		}
	}
	return nil
}

// inOrder checks that the claim passed over no better job that was visible and unlocked
// from the beginning of the call until the claim. It compares jobs of the same group.
func (w *world) inOrder(k *call) error {
	if k.disturbed {
		return nil
	}
	atStart, atClaim := w.states[k.startState], w.states[k.claimState]
	better := func(b, j Job) bool {
		if atClaim.Strict && j.Group != "" && (b.Attempt > 0) != (j.Attempt > 0) {
			return b.Attempt > 0 // a started job keeps its place
		}
		return b.before(j)
	}
	for _, j := range k.jobs {
		got := atClaim.Jobs[j.ID]
		for id, b := range atStart.Jobs {
			if now, ok := atClaim.Jobs[id]; !ok || now != b || b.claimed() || b.Waits || b.RunAt.After(j.ClaimedAt) || b.Group != got.Group {
				continue
			}
			if better(b, got) && !contains(k.changed, id) {
				return fmt.Errorf("job %d was claimed before job %d", j.ID, id)
			}
		}
	}
	return nil
}

func contains(list []int64, id int64) bool { return slices.Contains(list, id) }

func idsOf(jobs []*dibs.RawJob) (ids []int64) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// without lists the ids of outcomes that took effect. On a slow machine an outcome may wait for a lock too long: then it
// is unwritten.
func without(outcomes []dibs.Outcome, err error) (ids []int64) {
	var lost *dibs.FinishError
	errors.As(err, &lost)
	for _, o := range outcomes {
		if lost == nil || !contains(lost.Lost, o.ID) && !contains(lost.Unwritten, o.ID) {
			ids = append(ids, o.ID)
		}
	}
	return ids
}
