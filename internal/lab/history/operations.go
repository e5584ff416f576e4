package history

import "github.com/dibs-queue/dibs"

// complete reports whether the records contain the enqueue call of the job and each of its
// attempts.
func (l *life) complete() bool {
	lastNumber := 0
	for i := range l.attempts {
		if a := &l.attempts[i]; !a.rolledBack() {
			if a.Attempt > lastNumber+1 {
				return false
			}
			lastNumber = a.Attempt
		}
	}
	return l.born.call >= 0 && (l.final == nil || l.final.Attempt == lastNumber)
}

// operations lists the calls about the job, and its state at the end.
func (l *life) operations() []Operation {
	leases := make(map[dibs.Token]lease, len(l.attempts))
	var ops []Operation
	add := func(op step, from, to int64) {
		op.leases = leases
		ops = append(ops, Operation{from, to, op})
	}
	born := &l.ix.spans[l.born.call]
	add(step{verb: Enqueue}, born.seenLo, born.seenHi)
	for i := range l.attempts {
		l.attempt(&l.attempts[i], leases, add)
	}
	for _, e := range l.strays {
		s := &l.ix.spans[e.call]
		if outcome := l.ix.outcome(e); outcome == accepted {
			add(step{verb: Finish, lo: s.lo, hi: s.hi}, s.seenLo, s.seenHi)
		}
	}
	for _, e := range l.changes {
		c, s := l.ix.Calls[e.call], &l.ix.spans[e.call]
		if c.Verb == Edit {
			continue
		}
		op := step{verb: c.Verb, lo: s.lo, hi: s.hi, mayBeAbsent: s.fate == Unknown}
		for _, id := range c.Asked {
			op.asked = op.asked || id == l.id
		}
		add(op, s.seenLo, s.seenHi)
	}
	if n := l.newJob(); len(n.After) > 0 { // it may be cancelled because of others, again after each requeue
		for range 1 + len(l.changes) {
			add(step{verb: endedByOthers, hi: never, mayBeAbsent: true}, born.seenLo, never)
		}
	}
	if l.final != nil {
		state := l.final.State
		if state == dibs.Blocked { // other jobs block it, and operations are about this job alone
			state = dibs.Waiting
		}
		add(step{verb: observed, ending: state, attempt: l.final.Attempt, hi: never}, never, never)
	}
	return ops
}

func (l *life) attempt(a *attempt, leases map[dibs.Token]lease, add func(step, int64, int64)) {
	if a.rolledBack() {
		return
	}
	ix := l.ix
	leases[a.Token] = lease{a.leaseLo, a.leaseHi, a.Attempt-a.Excused >= a.MaxAttempts}
	add(step{verb: ix.Calls[a.call].Verb, lo: a.lo, hi: a.hi, token: a.Token, attempt: a.Attempt, mayBeAbsent: a.fate == Unknown}, a.seenLo, a.seenHi)
	for _, e := range append(a.finishes[:len(a.finishes):len(a.finishes)], a.extends...) {
		c, s := ix.Calls[e.call], &ix.spans[e.call]
		op := step{verb: c.Verb, lo: s.lo, hi: s.hi, token: a.Token, outcome: ix.outcome(e), mayBeAbsent: s.fate == Unknown && !e.refused}
		if c.Verb == Finish {
			op.ending = a.leaves(e, ix)
			op.givesBack = c.Outcomes[e.at].Ending == dibs.EndRetry || c.Outcomes[e.at].Ending == dibs.EndSnooze || c.Outcomes[e.at].Ending == dibs.EndRelease
		}
		switch op.outcome {
		case void:
		case refused: // the answer counts even if the transaction was rolled back
			add(op, s.lo, micros(c.End))
		default:
			add(op, s.seenLo, s.seenHi)
		}
	}
}

// leaves returns the state in which a finish leaves the job.
func (a *attempt) leaves(e event, ix *index) dibs.State {
	if state := a.finalState(ix.outcomeOf(e)); state != "" {
		return state
	}
	return dibs.Waiting
}
