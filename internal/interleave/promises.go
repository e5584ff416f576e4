package interleave

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dibs-queue/dibs"
)

// effect is what a transaction did to one job.
type effect string

const (
	claimed  effect = "claimed"
	resumed  effect = "resumed"
	extended effect = "extended"
	finished effect = "finished" // also given back
	expired  effect = "expired"
	enqueued effect = "enqueued"
	requeued effect = "requeued"
	ended    effect = "cancelled or completed unclaimed"
	asked    effect = "asked to be cancelled"
	edited   effect = "edited"
)

// may says what each verb's transactions may do to jobs. Who holds a place of a
// group is no effect: anybody may admit.
var may = map[string][]effect{
	"claim":       {claimed, expired}, // it may sweep first
	"resume":      {resumed},
	"extend":      {extended},
	"finish":      {finished},
	"sweep":       {expired},
	"enqueue":     {enqueued},
	"requeue":     {requeued},
	"cancel":      {ended, asked},
	"edit":        {edited},
	"transaction": {claimed, expired, ended, edited, finished, enqueued},
}

// committed checks the difference that one transaction of a call made.
func (w *world) committed(actor int, k *call, old, now State) error {
	for id := range w.made {
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
		if err := k.note(id, difference(k, b, wasLive, j, isLive), b, j); err != nil {
			return err
		}
	}
	for id := range now.Jobs {
		if !w.made[id] {
			w.made[id] = true
			if err := k.note(id, enqueued, Job{}, now.Jobs[id]); err != nil {
				return err
			}
		}
	}
	if err := unique(now); err != nil {
		return err
	}
	return w.limits(actor, k, now)
}

// difference names what became of a job.
func difference(k *call, b Job, wasLive bool, j Job, isLive bool) effect {
	gone := func() effect {
		named := slices.ContainsFunc(k.outcomes, func(o dibs.Outcome) bool { return o.Token == b.Token })
		if k.verb == "sweep" || k.verb == "claim" || k.verb == "transaction" && !named {
			return expired
		}
		return finished
	}
	switch {
	case !wasLive:
		return requeued
	case !isLive && b.claimed():
		return gone()
	case !isLive:
		return ended
	case b.claimed() && !j.claimed():
		return gone()
	case !b.claimed() && j.claimed():
		return claimed
	case b.Token != j.Token && (k.verb == "claim" || k.verb == "transaction"):
		return claimed // and expired before
	case b.Token != j.Token:
		return resumed
	case !b.LeaseUntil.Equal(j.LeaseUntil):
		return extended
	case b.Cancel != j.Cancel:
		return asked
	case b.Attempt != j.Attempt || b.Priority != j.Priority || !b.RunAt.Equal(j.RunAt):
		return edited
	}
	return ""
}

// note checks that the call may do this to the job as it was.
func (k *call) note(id int64, e effect, b, j Job) error {
	if e == "" {
		return nil
	}
	if !slices.Contains(may[k.verb], e) {
		return fmt.Errorf("job %d was %s", id, e)
	}
	if was, ok := k.did[id]; ok {
		return fmt.Errorf("job %d was %s and then %s by one call", id, was, e)
	}
	k.did[id] = e
	if e != enqueued && e != requeued && j.Attempt != 0 && j.Attempt < b.Attempt {
		return fmt.Errorf("job %d: attempt %d after %d", id, j.Attempt, b.Attempt)
	}
	over := !b.LeaseUntil.After(k.at)
	switch e {
	case claimed:
		if b.claimed() && !over {
			return fmt.Errorf("job %d was claimed at %v, its lease ends at %v", id, k.at, b.LeaseUntil)
		}
		if j.Attempt != b.Attempt+1 || b.RunAt.After(k.at) {
			return fmt.Errorf("job %d, due %v, was claimed at %v: attempt %d after %d", id, b.RunAt, k.at, j.Attempt, b.Attempt)
		}
	case finished:
		if over || !slices.ContainsFunc(k.outcomes, func(o dibs.Outcome) bool { return o.ID == id && o.Token == b.Token }) {
			return fmt.Errorf("job %d was finished without a good token: its lease ended at %v, now it is %v", id, b.LeaseUntil, k.at)
		}
	case extended:
		if over || !slices.Contains(k.leases, dibs.Lease{ID: id, Token: b.Token}) {
			return fmt.Errorf("job %d was extended without a good token", id)
		}
	case resumed:
		if over {
			return fmt.Errorf("job %d was resumed after its lease", id)
		}
	case expired:
		if !over {
			return fmt.Errorf("job %d was taken away at %v, its lease ends at %v", id, k.at, b.LeaseUntil)
		}
	case requeued, asked:
		if !contains(k.ids, id) {
			return fmt.Errorf("job %d was %s: nobody said so", id, e)
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

// limits checks that the jobs which a call has just started had room, under the limits
// of any moment since the call began: it may have come before a change.
func (w *world) limits(actor int, k *call, now State) error {
	during := w.states[k.start:]
	most := func(limit func(State) int) (n int) {
		for _, s := range during {
			n = max(n, limit(s))
		}
		return n
	}
	for id, e := range k.did {
		if e != claimed {
			continue
		}
		if !slices.ContainsFunc(during, func(s State) bool { return !s.Paused }) {
			return fmt.Errorf("job %d was claimed from a paused queue", id)
		}
		group := now.Jobs[id].Group
		limit := most(func(s State) int { return s.groupLimit(group) })
		if n := now.running(group) + w.heldInTx(actor, group); group != "" && n > limit {
			return fmt.Errorf("%d jobs of group %s run, the limit is %d", n, group, limit)
		}
		if slices.ContainsFunc(during, func(s State) bool { return s.Concurrency == 0 }) {
			continue
		}
		limit = most(func(s State) int { return s.Concurrency })
		if n := now.running("") + w.heldInTx(actor, ""); n > limit {
			return fmt.Errorf("%d jobs run, the limit is %d", n, limit)
		}
	}
	return nil
}

// heldInTx counts what open transactions have claimed.
func (w *world) heldInTx(actor int, group string) (n int) {
	for i, c := range w.clients {
		for _, j := range c.inTx {
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
	did := slices.Sorted(maps.Keys(k.did))
	switch k.verb {
	case "sweep":
		if k.count != len(did) {
			return fmt.Errorf("%d leases ended, the answer is %d", len(did), k.count)
		}
		return nil
	case "cancel", "edit", "extend", "transaction": // may leave a job as it is, asked for or locked
		for _, id := range did {
			if !contains(k.done, id) && k.did[id] != expired {
				return fmt.Errorf("job %d was %s, and the answer does not say so", id, k.did[id])
			}
		}
	case "transaction undone", "set queue", "set group":
	default:
		did = slices.DeleteFunc(did, func(id int64) bool { return k.verb == "claim" && k.did[id] == expired })
		if slices.Sort(k.done); !slices.Equal(did, k.done) {
			return fmt.Errorf("jobs %v were changed, the answer says %v", did, k.done)
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
			return fmt.Errorf("job %d: attempt %d was given, the database has %d", j.ID, j.Attempt, now.Attempt)
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

// existing checks that jobs named as the holders of a key were that.
func (w *world) existing(k *call) error {
	for _, id := range k.ids {
		if !slices.ContainsFunc(w.states[k.start:], func(s State) bool { return s.Jobs[id].HoldsKey }) {
			return fmt.Errorf("job %d was named as the holder of a key and was none", id)
		}
	}
	return nil
}

// inOrder checks that no better job was passed over that was visible and unlocked
// from the call's beginning to its claim. Jobs of a group compete with each other.
func (w *world) inOrder(k *call) error {
	if k.disturbed {
		return nil
	}
	first, then := w.states[k.start], w.states[k.asked]
	better := func(b, j Job) bool {
		if then.Strict && j.Group != "" && (b.Attempt > 0) != (j.Attempt > 0) {
			return b.Attempt > 0 // what has been started keeps its place
		}
		return b.before(j)
	}
	for _, j := range k.jobs {
		got := then.Jobs[j.ID]
		for id, b := range first.Jobs {
			if now, ok := then.Jobs[id]; !ok || now != b || b.claimed() || b.RunAt.After(j.ClaimedAt) || b.Group != got.Group {
				continue
			}
			if better(b, got) && !contains(k.done, id) {
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

// without lists the ids of outcomes that took effect.
func without(outcomes []dibs.Outcome, err error) (ids []int64) {
	var lost *dibs.FinishError
	errors.As(err, &lost)
	for _, o := range outcomes {
		if lost == nil || !contains(lost.Lost, o.ID) {
			ids = append(ids, o.ID)
		}
	}
	return ids
}
