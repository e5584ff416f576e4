package history

import "github.com/dibs-queue/dibs"

// complete reports whether somebody is known to have enqueued the job and to have had
// each of its attempts.
func (l *life) complete() bool {
	given := 0
	for i := range l.attempts {
		if a := &l.attempts[i]; !a.trial() {
			if a.Attempt > given+1 {
				return false
			}
			given = a.Attempt
		}
	}
	return l.born.call >= 0 && (l.final == nil || l.final.Attempt == given)
}

// operations are the calls about the job and what is found at the end.
func (l *life) operations() []Operation {
	leases := make(map[dibs.Token]lease, len(l.attempts))
	var ops []Operation
	add := func(in step, from, to int64) {
		in.leases = leases
		ops = append(ops, Operation{from, to, in})
	}
	born := &l.ix.spans[l.born.call]
	add(step{verb: Enqueue}, born.seen, born.shown)
	for i := range l.attempts {
		l.attempt(&l.attempts[i], leases, add)
	}
	for _, e := range l.strays {
		s := &l.ix.spans[e.call]
		if outcome := l.ix.outcome(e); outcome == accepted {
			add(step{verb: Finish, lo: s.lo, hi: s.hi}, s.seen, s.shown)
		}
	}
	for _, e := range l.changes {
		c, s := l.ix.Calls[e.call], &l.ix.spans[e.call]
		if c.Verb == Edit {
			continue
		}
		in := step{verb: c.Verb, lo: s.lo, hi: s.hi, maybe: s.fate == Unknown}
		for _, id := range c.Asked {
			in.asked = in.asked || id == l.id
		}
		add(in, s.seen, s.shown)
	}
	if l.final != nil {
		state := l.final.State
		if state == dibs.Blocked { // by other jobs, of which this one knows nothing
			state = dibs.Waiting
		}
		add(step{verb: observed, ending: state, attempt: l.final.Attempt, hi: never}, never, never)
	}
	return ops
}

func (l *life) attempt(a *attempt, leases map[dibs.Token]lease, add func(step, int64, int64)) {
	if a.trial() {
		return
	}
	ix := l.ix
	leases[a.Token] = lease{a.leaseLo, a.leaseHi, a.Attempt-a.Excused >= a.MaxAttempts}
	add(step{verb: ix.Calls[a.call].Verb, lo: a.lo, hi: a.hi, token: a.Token, attempt: a.Attempt, maybe: a.fate == Unknown}, a.seen, a.shown)
	for _, e := range append(a.finishes[:len(a.finishes):len(a.finishes)], a.extends...) {
		c, s := ix.Calls[e.call], &ix.spans[e.call]
		in := step{verb: c.Verb, lo: s.lo, hi: s.hi, token: a.Token, outcome: ix.outcome(e), maybe: s.fate == Unknown && !e.refused}
		if c.Verb == Finish {
			in.ending = a.leaves(e, ix)
			in.gives = c.Outcomes[e.at].Ending == dibs.EndRetry || c.Outcomes[e.at].Ending == dibs.EndSnooze || c.Outcomes[e.at].Ending == dibs.EndRelease
		}
		switch in.outcome {
		case void:
		case refused: // whatever became of its transaction
			add(in, s.lo, micros(c.End))
		default:
			add(in, s.seen, s.shown)
		}
	}
}

// leaves is the state in which a finish leaves the job.
func (a *attempt) leaves(e event, ix *index) dibs.State {
	if state := a.ends(ix.outcomeOf(e)); state != "" {
		return state
	}
	return dibs.Waiting
}
