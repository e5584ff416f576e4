package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// follower judges promise 11 for one job: it starts after all that it comes after, and at the end it is cancelled if and
// only if one of those has not ended as it needs, with the right cause.
func (j *judge) follower(l *life) {
	f := j.flows[l.id]
	if f == nil || len(f.edges) == 0 {
		return
	}
	certain, maybe := j.comesAfter(f)
	if j.mayChangeAgain(f) { // while it had ended, it got no edges to what others added
		own := slices.IndexFunc(certain, func(e edge) bool { return e.inherited })
		if own >= 0 {
			certain, maybe = certain[:own:own], append(maybe, certain[own:]...)
		}
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if l.mayBeRequeued(0, a.hi) { // an operator may start it before its time
			break
		}
		if a.inTx(j.index) { // what it comes after may have ended in that transaction
			continue
		}
		j.checked(11, 1)
		for _, e := range certain {
			if from := j.metFrom(&e); a.hi < from {
				j.accuse(11, l.id, append(j.callsOf(e.parent), l.born.call, a.call), "job %d comes after job %d, which must be %s, and was given to %s by %s, when that could not be", l.id, e.parent, e.need, j.holderOf(a), timeText(a.hi))
				break
			}
		}
	}
	if l.final != nil && !f.hidden {
		j.endOfFollower(l, f, certain, maybe)
	}
}

// endOfFollower judges how a job that comes after others ended.
func (j *judge) endOfFollower(l *life, f *flowJob, certain, maybe []edge) {
	roots := make(map[int64]bool) // what may be its cause
	var unmet *edge               // what certainly keeps it from starting
	requeued := false             // what it comes after may have been requeued after its end, which does not bring it back
	for i, e := range append(certain[:len(certain):len(certain)], maybe...) {
		p := j.flows[e.parent]
		if p == nil || p.final == nil || !p.final.State.Final() {
			return // deleted, or live because of a fault that is judged by itself
		}
		requeued = requeued || p.requeued && p.id != l.final.Cause
		if !e.unmet(p.final.State) {
			continue
		}
		if p.final.Cause != 0 {
			roots[p.final.Cause] = true
		} else {
			roots[p.id] = true
		}
		if i < len(certain) && !j.mayChangeAgain(p) {
			unmet = &certain[i]
		}
	}
	j.checked(11, 1)
	switch s := l.final; {
	case !s.State.Final():
		if s.State == dibs.Blocked && s.Attempt == 0 && !f.requeued {
			j.accuse(11, l.id, l.calls(), "job %d is blocked at the end, though all that it comes after has ended", l.id)
		}
	case f.requeued:
	case s.Cause != 0 && s.State != dibs.Cancelled:
		j.accuse(11, l.id, l.calls(), "job %d is %s, and has the cause %d", l.id, s.State, s.Cause)
	case s.Cause != 0 && !roots[s.Cause] && !requeued:
		j.accuse(11, l.id, append(j.callsOf(s.Cause), l.calls()...), "job %d was cancelled because of job %d, which did not keep it from starting", l.id, s.Cause)
	case s.Cause == 0 && unmet != nil && (s.State != dibs.Cancelled || !l.mayHaveChanged(Cancel, 0, never)):
		j.accuse(11, l.id, append(j.callsOf(unmet.parent), l.calls()...), "job %d is %s without a cause, though job %d, which it comes after, had to be %s and is %s", l.id, s.State, unmet.parent, unmet.need, j.flows[unmet.parent].final.State)
	}
}

// callsOf lists the calls about a job.
func (j *judge) callsOf(id int64) []int32 {
	n, ok := j.numbers[id]
	if !ok {
		return nil
	}
	var l life
	j.rebuild(int(n), &l)
	return l.calls()
}

// releasedBy is the time by which all that the job comes after had certainly ended as it needs; doomedBy is that by which
// one of them had certainly ended otherwise. Both are never if that is not certain. A job that comes after none is
// released at once.
func (j *judge) releasedBy(id int64) (released, doomed int64) {
	f := j.flows[id]
	if f == nil || len(f.edges) == 0 {
		return 0, never
	}
	certain, maybe := j.comesAfter(f)
	doomed = never
	if f.hidden || len(maybe) > 0 {
		released = never
	}
	for _, e := range certain {
		p := j.flows[e.parent]
		if j.mayChangeAgain(p) || p.final == nil {
			released = never
			continue
		}
		switch {
		case e.need == dibs.NeedEnded:
			released = max(released, min(p.completed.hi, p.failed.hi))
		case e.need == dibs.NeedCompleted:
			released, doomed = max(released, p.completed.hi), min(doomed, p.failed.hi)
		default:
			released, doomed = max(released, p.failed.hi), min(doomed, p.completed.hi)
		}
	}
	return released, doomed
}
