package history

// fence judges promise 3 for one job: every finish and extend whose answer is known
// was accepted or refused rightly.
func (j *judge) fence(l *life) {
	for _, e := range l.strays {
		j.checked(3, 1)
		if j.outcome(e) == accepted {
			j.accuse(3, l.id, []int32{e.call}, "a %s of job %d was accepted with a token that no claim of the job was given", j.Calls[e.call].Verb, l.id)
		}
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		for _, e := range a.finishes {
			j.fenced(l, i, e)
		}
		for _, e := range a.extends {
			j.fenced(l, i, e)
		}
	}
}

func (j *judge) fenced(l *life, i int, e event) {
	a := &l.attempts[i]
	switch j.outcome(e) {
	case accepted:
		j.checked(3, 1)
		j.stale(l, i, e)
	case refused:
		j.checked(3, 1)
		end := micros(j.Calls[e.call].End)
		lo, _ := a.lease(j.index, end, e.call)
		if a.own(e, j.index) {
			lo = never
		}
		if a.fate == Done && lo > end && !j.endable(l, i, e, end) {
			j.accuse(3, l.id, []int32{a.call, e.call}, "%s of job %d was told at %s that its lease is lost, but the lease ran until %s at least, and nothing had ended it: a %s was refused wrongly", j.who(a), l.id, show(end), show(lo), j.Calls[e.call].Verb)
		}
	}
}

// stale accuses an accepted call whose token was certainly worth nothing any more.
func (j *judge) stale(l *life, i int, e event) {
	a, s, c := &l.attempts[i], &j.spans[e.call], j.Calls[e.call]
	own := a.own(e, j.index)
	if a.inTx(j.index) && !own && (a.trial() || s.hi < a.seen) {
		j.accuse(3, l.id, []int32{a.call, e.call}, "a %s of job %d was accepted outside of the transaction in which %s claimed it, which had not been committed", c.Verb, l.id, j.who(a))
		return
	}
	if _, hi := a.lease(j.index, s.hi, e.call); hi < s.lo && !own {
		j.accuse(3, l.id, []int32{a.call, e.call}, "a %s by %s of job %d was accepted at %s, after its lease had ended at %s at the latest", c.Verb, j.who(a), l.id, show(s.lo), show(hi))
		return
	}
	for k := i + 1; k < len(l.attempts); k++ {
		if b := &l.attempts[k]; b.fate == Done && b.Attempt > a.Attempt && b.hi < s.lo {
			j.accuse(3, l.id, []int32{a.call, b.call, e.call}, "a %s by %s of job %d was accepted at %s, though the job had been given to %s at %s", c.Verb, j.who(a), l.id, show(s.lo), j.who(b), show(b.hi))
			return
		}
	}
	for _, other := range a.finishes {
		o := &j.spans[other.call]
		if other.call == e.call || j.outcome(other) != accepted {
			continue
		}
		if o.shown < s.lo || (c.Verb == Finish && other.call < e.call) {
			j.accuse(3, l.id, []int32{a.call, other.call, e.call}, "a %s by %s of job %d was accepted, though the attempt had been finished by another call", c.Verb, j.who(a), l.id)
			return
		}
	}
}

// endable reports whether anything may have ended the i-th attempt by the time by.
func (j *judge) endable(l *life, i int, e event, by int64) bool {
	a := &l.attempts[i]
	for _, other := range a.finishes {
		if other.call != e.call && !other.refused && j.spans[other.call].lo <= by && j.Calls[other.call].Fate != Nothing {
			return true
		}
	}
	if l.changed(Ended, 0, by) {
		return true
	}
	// The job being given to another is for promise 2, unless it was resumed.
	for k := i + 1; k < len(l.attempts); k++ {
		if l.attempts[k].lo <= by {
			return true
		}
	}
	return j.resumed(l, j.Calls[a.call].Worker, by)
}
