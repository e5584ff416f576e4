package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// unit is what happens as a whole or not at all, and whose answer is unknown: the jobs of
// an enqueue, or all that was done in a transaction.
type unit struct{ found, missing []int32 } // the calls whose effect is there, and is not

// unitKey is a transaction's name, or else a call.
type unitKey struct {
	tx   string
	call int32
}

// unit is what the call belongs to, or nil. Calls of a transaction that failed by
// themselves do not belong to it.
func (j *judge) unit(call int32) *unit {
	c := j.Calls[call]
	if j.spans[call].fate != Unknown || c.Tx != "" && c.Fate != Done {
		return nil
	}
	key := unitKey{c.Tx, call}
	if c.Tx != "" {
		key.call = 0
	}
	if j.units[key] == nil {
		j.units[key] = &unit{}
	}
	return j.units[key]
}

func (u *unit) see(found bool, call int32) {
	switch {
	case u == nil:
	case found:
		u.found = append(u.found, call)
	default:
		u.missing = append(u.missing, call)
	}
}

// absence is a job with a unique key that is not there, of an enqueue without an answer:
// it may also be that another job held the key.
type absence struct {
	place
	unit    *unit
	excused bool
}

// halves notes for one job which effects of transactions without an answer are there,
// and whether it may have held a key for which another is not there.
func (j *judge) halves(l *life) {
	if n := l.new(); n != nil && n.UniqueKey != "" {
		for _, a := range j.absent[[2]string{n.Queue, n.UniqueKey}] {
			s := &j.spans[a.call]
			a.excused = a.excused || j.spans[l.born.call].lo <= s.until && j.mayHoldUntil(l, n) >= s.lo
		}
	}
	if l.final == nil {
		return
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.inTx(j.index) && l.superseded(a) {
			j.unit(a.call).see(false, a.call)
		}
		for _, e := range a.finishes {
			if j.Calls[e.call].Tx == "" || j.outcome(e) != open {
				continue
			}
			if found, known := j.effect(l, i, e); known {
				j.unit(e.call).see(found, e.call)
			}
		}
	}
}

// superseded reports whether the attempt certainly never was: somebody else was
// given its number, or nobody.
func (l *life) superseded(a *attempt) bool {
	return l.final.Attempt < a.Attempt || slices.ContainsFunc(l.attempts, func(b attempt) bool {
		return b.Attempt == a.Attempt && b.call != a.call && b.fate == Done
	})
}

// effect reports whether what the finish of the i-th attempt did is there, if that can
// be known: a completion by the job's state, a failure by its error, a release or snooze by
// its count.
func (j *judge) effect(l *life, i int, e event) (found, known bool) {
	a, o := &l.attempts[i], j.outcomeOf(e)
	if slices.ContainsFunc(a.finishes, func(f event) bool { return f.call != e.call && j.outcome(f) <= open }) {
		return false, false // by another call, perhaps
	}
	alone := !slices.ContainsFunc(l.attempts, func(b attempt) bool { return b.Attempt == a.Attempt && b.call != a.call })
	switch {
	case !alone:
	case o.Ending == dibs.EndCompleted:
		found = j.only(l, a, e)
		return found, found || j.other(l, a)
	case o.LeavesError():
		if entry := l.errorOf(a.Attempt); entry != nil {
			return entry.Error != expired, true
		}
		return false, !l.overflowed(a.Attempt)
	case !l.requeued(a.lo, never) && !l.changed(Cancel, 0, never):
		excused := l.final.Excused
		if i+1 < len(l.attempts) {
			excused = l.attempts[i+1].Excused
		}
		next := l.final.Attempt
		if i+1 < len(l.attempts) {
			next = l.attempts[i+1].Attempt - 1
		}
		return excused > a.Excused, next == a.Attempt
	}
	return false, false
}

// whole judges that what belongs together happened together.
func (j *judge) whole() {
	for _, list := range j.absent {
		for _, a := range list {
			if !a.excused && !j.forgets(j.Calls[a.call].New[a.at].Queue) {
				a.unit.see(false, a.call)
			}
		}
	}
	for _, u := range j.units {
		if len(u.found) == 0 || len(u.missing) == 0 {
			continue
		}
		first, other := u.found[0], u.missing[0]
		what, promise := "what one transaction did", 8
		if j.Calls[first].Tx == "" {
			what = "the jobs that were enqueued together"
		}
		if j.Calls[first].Verb == Enqueue || j.Calls[other].Verb == Enqueue {
			promise = 1
		}
		j.accuse(promise, 0, []int32{first, other}, "of %s, some is there (%d times, by %s's call %d) and some is not (%d times, by its call %d): it must be as a whole or not at all",
			what, len(u.found), j.Calls[first].Client, j.Calls[first].Number, len(u.missing), j.Calls[other].Number)
	}
}
