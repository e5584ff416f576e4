package history

import "github.com/dibs-queue/dibs"

// Operation is one call about a job, or what is found at the end, for a general checker of
// linearizability: it took effect at one moment between From and To, if ever.
type Operation struct {
	From, To int64
	step     step
}

// After are the states in which the call may leave a job in the state s, if it can have been
// answered as it was. The zero JobState is that of a job that is not enqueued yet.
func (o *Operation) After(s JobState) (next []any) {
	for _, before := range o.step.passed(s) {
		if after, ok := o.step.apply(before); ok {
			next = append(next, after)
		}
	}
	if o.step.maybe {
		next = append(next, s)
	}
	return next
}

// Operations gives f those of each job, and what to say if no order of them explains their
// answers. It gives none of a job of which somebody without an answer had an attempt.
func Operations(e Evidence, f func(ops []Operation, broken func() Violation)) {
	j := &judge{index: newIndex(&e)}
	var l life
	for n := range j.ids {
		j.live(n, &l)
		if l.born.call < 0 && l.final == nil && len(l.attempts) == 0 {
			continue // somebody asked for a job that there never was
		}
		var ops []Operation
		if l.complete() {
			ops = l.operations()
		}
		id, calls := l.id, l.calls()
		f(ops, func() Violation {
			return Violation{Job: id, Calls: j.show(calls), Text: "no order of the calls about this job explains their answers"}
		})
	}
}

// JobState is a single job between two calls.
type JobState struct {
	state   dibs.State // empty: not enqueued
	attempt int
	token   dibs.Token // while it is running
	asked   bool       // to stop, while it is running
}

// step is one call about a job. Times are those of the call itself.
type step struct {
	verb    Verb
	lo, hi  int64
	outcome int
	token   dibs.Token
	attempt int
	ending  dibs.State // what a finish makes of the job
	gives   bool       // finish: it gives the job back, unless somebody asked to cancel it
	asked   bool       // cancel: it was told that the job was running
	maybe   bool       // it may not have happened
	leases  map[dibs.Token]lease
}

// lease is when a token's lease ended, and whether the job had attempts left then.
type lease struct {
	lo, hi int64
	last   bool
}

// observed is the pseudo-verb of what is found at the end.
const observed Verb = "observed"

// passed are the states that time may have made of s by the end of the call.
func (in *step) passed(s JobState) []JobState {
	l, ok := in.leases[s.token]
	if s.state != dibs.Running || !ok || in.hi < l.lo {
		return []JobState{s}
	}
	expired := JobState{state: dibs.Waiting, attempt: s.attempt}
	switch {
	case s.asked:
		expired.state = dibs.Cancelled
	case l.last:
		expired.state = dibs.Dead
	}
	return []JobState{s, expired}
}

// apply is what the call makes of a job in the state s, if it can have been answered
// so.
func (in *step) apply(s JobState) (after JobState, ok bool) {
	holds := s.state == dibs.Running && s.token == in.token
	after = s
	switch in.verb {
	case Enqueue:
		return JobState{state: dibs.Waiting}, s.state == ""
	case Claim, Resume:
		from := dibs.Waiting
		if in.verb == Resume {
			from = dibs.Running
		}
		after = JobState{state: dibs.Running, attempt: in.attempt, token: in.token}
		return after, s.state == from && s.attempt+1 == in.attempt
	case Finish, Extend:
		if in.outcome == refused {
			return s, !holds || in.hi >= in.leases[in.token].lo
		}
		if in.verb == Finish {
			after = JobState{state: in.ending, attempt: s.attempt}
			if s.asked && in.gives {
				after.state = dibs.Cancelled
			}
		}
		return after, holds && in.leases[in.token].hi >= in.lo
	case Cancel:
		if s.state == dibs.Running && (in.asked || in.maybe) {
			after.asked = true
			return after, true
		}
		return JobState{state: dibs.Cancelled, attempt: s.attempt}, s.state == dibs.Waiting && !in.asked
	case Requeue:
		return JobState{state: dibs.Waiting, attempt: s.attempt}, s.state.Final()
	default: // observed
		return s, s.state == in.ending && s.attempt == in.attempt
	}
}
