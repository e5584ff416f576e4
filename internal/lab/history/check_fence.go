package history

// fencePromise is the promise that a call with a stale token breaks.
func (c *Call) fencePromise() int {
	if c.Verb == PutStep || c.Verb == Steps {
		return 12
	}
	return 3
}

// fence judges promise 3 for one job: every finish and extend that has an answer was
// rightly accepted or rightly refused. For its steps this is a part of promise 12.
func (j *judge) fence(l *life) {
	for _, e := range l.strays {
		promise := j.Calls[e.call].fencePromise()
		j.checked(promise, 1)
		if j.outcome(e) == accepted {
			j.accuse(promise, l.id, []int32{e.call}, "a %s of job %d was accepted with a token that no claim of the job was given", j.Calls[e.call].Verb, l.id)
		}
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		for _, events := range [][]event{a.finishes, a.extends, a.steps} {
			for _, e := range events {
				j.fenceCall(l, i, e)
			}
		}
	}
}

func (j *judge) fenceCall(l *life, i int, e event) {
	a := &l.attempts[i]
	promise := j.Calls[e.call].fencePromise()
	switch j.outcome(e) {
	case accepted:
		j.checked(promise, 1)
		j.accuseIfStale(l, i, e)
	case refused:
		j.checked(promise, 1)
		end := micros(j.Calls[e.call].End)
		lo, _ := a.leaseEnd(j.index, end, e.call)
		if a.inOwnTx(e, j.index) {
			lo = never
		}
		if a.fate == Done && lo > end && !j.mayHaveEnded(l, i, e, end) {
			j.accuse(promise, l.id, []int32{a.call, e.call}, "%s of job %d was told at %s that its lease is lost, but the lease ran until %s at least, and nothing had ended it: a %s was refused wrongly", j.holderOf(a), l.id, timeText(end), timeText(lo), j.Calls[e.call].Verb)
		}
	}
}

// accuseIfStale accuses an accepted call whose token was certainly no longer valid.
func (j *judge) accuseIfStale(l *life, i int, e event) {
	a, s, c := &l.attempts[i], &j.spans[e.call], j.Calls[e.call]
	own, promise := a.inOwnTx(e, j.index), c.fencePromise()
	if a.inTx(j.index) && !own && (a.rolledBack() || s.hi < a.seenLo) {
		j.accuse(promise, l.id, []int32{a.call, e.call}, "a %s of job %d was accepted outside of the transaction in which %s claimed it, which had not been committed", c.Verb, l.id, j.holderOf(a))
		return
	}
	if _, hi := a.leaseEnd(j.index, s.hi, e.call); hi < s.lo && !own {
		j.accuse(promise, l.id, []int32{a.call, e.call}, "a %s by %s of job %d was accepted at %s, after its lease had ended at %s at the latest", c.Verb, j.holderOf(a), l.id, timeText(s.lo), timeText(hi))
		return
	}
	for k := i + 1; k < len(l.attempts); k++ {
		if b := &l.attempts[k]; b.fate == Done && b.Attempt > a.Attempt && b.hi < s.lo {
			j.accuse(promise, l.id, []int32{a.call, b.call, e.call}, "a %s by %s of job %d was accepted at %s, though the job had been given to %s at %s", c.Verb, j.holderOf(a), l.id, timeText(s.lo), j.holderOf(b), timeText(b.hi))
			return
		}
	}
	for _, other := range a.finishes {
		o := &j.spans[other.call]
		if other.call == e.call || j.outcome(other) != accepted {
			continue
		}
		if o.seenHi < s.lo || (c.Verb == Finish && other.call < e.call) {
			j.accuse(promise, l.id, []int32{a.call, other.call, e.call}, "a %s by %s of job %d was accepted, though the attempt had been finished by another call", c.Verb, j.holderOf(a), l.id)
			return
		}
	}
}

// mayHaveEnded reports whether anything but the call e may have ended the i-th attempt.
func (j *judge) mayHaveEnded(l *life, i int, e event, endedBy int64) bool {
	a := &l.attempts[i]
	for _, other := range a.finishes {
		if other.call != e.call && !other.refused && j.spans[other.call].lo <= endedBy && j.Calls[other.call].Fate != Nothing {
			return true
		}
	}
	if l.mayHaveChanged(Ended, 0, endedBy) {
		return true
	}
	// owners judges whether the next attempt began too early.
	for k := i + 1; k < len(l.attempts); k++ {
		if l.attempts[k].lo <= endedBy {
			return true
		}
	}
	return j.mayBeResumed(l, j.Calls[a.call].Worker, endedBy)
}
