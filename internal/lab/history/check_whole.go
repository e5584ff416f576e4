package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// unit is an enqueue call or a transaction without an answer: either all of its effects are
// in the database, or none. The calls in found have an effect there, those in missing none.
type unit struct{ found, missing []int32 }

// unitKey is a transaction's name, or a call outside of any.
type unitKey struct {
	tx   string
	call int32
}

// unit returns the unit that the call belongs to, or nil. A call that failed in a
// transaction does not belong to it.
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

func (u *unit) note(found bool, call int32) {
	switch {
	case u == nil:
	case found:
		u.found = append(u.found, call)
	default:
		u.missing = append(u.missing, call)
	}
}

// absence is a job that an enqueue without an answer asked for and that does not exist. It
// has a unique key; if another job may have held that, the absence is excused.
type absence struct {
	place
	unit    *unit
	excused bool
}

// noteUnits notes for one job which effects of transactions without an answer exist. It also
// excuses the absence of jobs whose unique key this job may have held.
func (j *judge) noteUnits(l *life) {
	if n := l.newJob(); n != nil && n.UniqueKey != "" {
		for _, a := range j.absent[[2]string{n.Queue, n.UniqueKey}] {
			s := &j.spans[a.call]
			a.excused = a.excused || j.spans[l.born.call].lo <= s.unlockedBy && j.keyFreeBy(l, n) >= s.lo
		}
	}
	if l.final == nil {
		return
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.inTx(j.index) && l.superseded(a) {
			j.unit(a.call).note(false, a.call)
		}
		for _, e := range a.finishes {
			add, adds := j.adds[addition{e.call, l.id}]
			if j.Calls[e.call].Tx == "" && !adds || j.outcome(e) != open {
				continue
			}
			found, known := j.effectFound(l, i, e)
			switch {
			case !known:
			case adds:
				j.unit(add).note(found, e.call)
			default:
				j.unit(e.call).note(found, e.call)
			}
		}
	}
}

// superseded reports whether the attempt was certainly rolled back: another claim was given
// its number, or the job ended with fewer attempts.
func (l *life) superseded(a *attempt) bool {
	return l.final.Attempt < a.Attempt || slices.ContainsFunc(l.attempts, func(b attempt) bool {
		return b.Attempt == a.Attempt && b.call != a.call && b.fate == Done
	})
}

// effectFound reports whether the database shows what the finish e of the i-th attempt did,
// and whether it could: a completion shows in the state, a failure in the errors, a
// release or snooze in the number of excused attempts.
func (j *judge) effectFound(l *life, i int, e event) (found, known bool) {
	a, o := &l.attempts[i], j.outcomeOf(e)
	if slices.ContainsFunc(a.finishes, func(f event) bool { return f.call != e.call && j.outcome(f) <= open }) {
		return false, false // another call may have ended the attempt
	}
	onlyClaim := !slices.ContainsFunc(l.attempts, func(b attempt) bool { return b.Attempt == a.Attempt && b.call != a.call })
	switch {
	case !onlyClaim:
	case o.Ending == dibs.EndCompleted:
		found = j.certainlyCompleted(l, a, e)
		return found, found || j.endedOtherwise(l, a)
	case o.LeavesError():
		if entry := l.errorOf(a.Attempt); entry != nil {
			return entry.Error != expired, true
		}
		return false, !l.overflowed(a.Attempt)
	case !l.mayBeRequeued(a.lo, never) && !l.mayHaveChanged(Cancel, 0, never):
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

// wholeUnits judges that each unit took effect as a whole or not at all.
func (j *judge) wholeUnits() {
	for _, list := range j.absent {
		for _, a := range list {
			if !a.excused && !j.mayDelete(j.Calls[a.call].New[a.at].Queue) {
				a.unit.note(false, a.call)
			}
		}
	}
	for _, u := range j.units {
		if len(u.found) == 0 || len(u.missing) == 0 {
			continue
		}
		first, other := u.found[0], u.missing[0]
		subject, promise := "the calls of one transaction", 8
		if j.Calls[first].Tx == "" {
			subject = "the jobs that were enqueued together"
		}
		if j.Calls[first].Verb == Enqueue || j.Calls[other].Verb == Enqueue {
			promise = max(j.promiseOf(first), j.promiseOf(other))
		}
		if promise == 13 {
			subject = "the completion of a job and those that it adds"
		}
		j.accuse(promise, 0, []int32{first, other}, "%s must take effect as a whole or not at all, but %d effects are there (such as that of %s's call %d) and %d are missing (such as that of its call %d)",
			subject, len(u.found), j.Calls[first].Client, j.Calls[first].Number, len(u.missing), j.Calls[other].Number)
	}
}
