package history

import "github.com/dibs-queue/dibs"

// Operation is one call about a job, or the state at the end, for a general checker of
// linearizability. If it took effect, it did so at one moment between From and To.
type Operation struct {
	From, To int64
	step     step
}

// After returns the states in which the call may leave a job that is in the state s; none if
// its answer contradicts s. A job that is not enqueued yet has the zero JobState.
func (o *Operation) After(s JobState) (next []any) {
	for _, before := range o.step.afterExpiry(s) {
		if after, ok := o.step.apply(before); ok {
			next = append(next, after)
		}
	}
	if o.step.mayBeAbsent {
		next = append(next, s)
	}
	return next
}

// Operations calls f with the operations of each job, and with a function that describes the
// violation if no order of them explains their answers. A job has no operations if a claim
// without an answer may have taken it.
func Operations(e Evidence, f func(ops []Operation, broken func() Violation)) {
	j := &judge{index: newIndex(&e)}
	var l life
	for n := range j.ids {
		j.rebuild(n, &l)
		if l.born.call < 0 && l.final == nil && len(l.attempts) == 0 {
			continue // a call named a job that never existed
		}
		var ops []Operation
		if l.complete() {
			ops = l.operations()
		}
		id, calls := l.id, l.calls()
		f(ops, func() Violation {
			return Violation{Job: id, Calls: j.withTxEnds(calls), Text: "no order of the calls about this job explains their answers"}
		})
	}
}

// JobState is a single job between two calls.
type JobState struct {
	state   dibs.State // empty: not enqueued
	attempt int
	token   dibs.Token // only set while the job is running
	asked   bool       // the worker was asked to stop; only set while the job is running
}

// step is one call about a job. It began at lo and was answered at hi.
type step struct {
	verb        Verb
	lo, hi      int64
	outcome     int
	token       dibs.Token
	attempt     int
	ending      dibs.State // finish: the state in which it leaves the job
	givesBack   bool       // finish: it lets the job run again, unless a cancel was requested
	asked       bool       // cancel: the answer says that the job was running
	mayBeAbsent bool       // the call may not have taken effect
	leases      map[dibs.Token]lease
}

// lease bounds when a token's lease ended, and says whether this was the last attempt.
type lease struct {
	lo, hi      int64
	lastAttempt bool
}

// observed is the pseudo-verb for the job's state at the end.
const observed Verb = "observed"

// endedByOthers is the pseudo-verb for the end of a job that can never start, because of those that it comes after.
const endedByOthers Verb = "ended by others"

// afterExpiry returns s and, if the lease may end before the call does, the state after that.
func (call *step) afterExpiry(s JobState) []JobState {
	l, ok := call.leases[s.token]
	if s.state != dibs.Running || !ok || call.hi < l.lo {
		return []JobState{s}
	}
	expired := JobState{state: dibs.Waiting, attempt: s.attempt}
	switch {
	case s.asked:
		expired.state = dibs.Cancelled
	case l.lastAttempt:
		expired.state = dibs.Dead
	}
	return []JobState{s, expired}
}

// apply returns the state in which the call leaves a job that is in the state s. It returns
// false if the call's answer contradicts s.
func (call *step) apply(s JobState) (after JobState, ok bool) {
	holds := s.state == dibs.Running && s.token == call.token
	after = s
	switch call.verb {
	case Enqueue:
		return JobState{state: dibs.Waiting}, s.state == ""
	case Claim, Resume:
		from := dibs.Waiting
		if call.verb == Resume {
			from = dibs.Running
		}
		after = JobState{state: dibs.Running, attempt: call.attempt, token: call.token}
		return after, s.state == from && s.attempt+1 == call.attempt
	case Finish, Extend:
		if call.outcome == refused {
			return s, !holds || call.hi >= call.leases[call.token].lo
		}
		if call.verb == Finish {
			after = JobState{state: call.ending, attempt: s.attempt}
			if s.asked && call.givesBack {
				after.state = dibs.Cancelled
			}
		}
		return after, holds && call.leases[call.token].hi >= call.lo
	case Cancel:
		if s.state == dibs.Running && (call.asked || call.mayBeAbsent) {
			after.asked = true
			return after, true
		}
		return JobState{state: dibs.Cancelled, attempt: s.attempt}, s.state == dibs.Waiting && !call.asked
	case endedByOthers:
		return JobState{state: dibs.Cancelled, attempt: s.attempt}, s.state == dibs.Waiting
	case Requeue:
		return JobState{state: dibs.Waiting, attempt: s.attempt}, s.state.Final()
	default: // observed
		return s, s.state == call.ending && s.attempt == call.attempt
	}
}
