package history

import (
	"github.com/dibs-queue/dibs"
)

// claims judges each claim by itself: it takes no more jobs than it asked for and none
// from a paused queue (promise 6), and its leases are as long as it asked for (promise 2).
func (j *judge) claims() {
	for i, c := range j.Calls {
		if (c.Verb != Claim && c.Verb != Resume) || len(c.Jobs) == 0 {
			continue
		}
		s, l, first := &j.spans[i], j.lane(c.Queue), c.Jobs[0].ID
		if c.Verb == Claim {
			j.checked(6, 1)
			if len(c.Jobs) > c.Want {
				j.accuse(6, first, []int32{int32(i)}, "a claim asked for %d jobs of queue %s and got %d", c.Want, quote(c.Queue), len(c.Jobs))
			}
			if paused, _ := l.paused.between(s.lo, s.hi); paused == 1 {
				j.accuse(6, first, []int32{int32(i)}, "a claim at %s got %d jobs of queue %s, which was paused", timeText(s.lo), len(c.Jobs), quote(c.Queue))
			}
		}
		least, most := c.Lease.Microseconds(), c.Lease.Microseconds()
		if most == 0 {
			least, most = l.lease.between(s.lo, s.hi)
		}
		most += j.LeaseSlack.Microseconds()
		for at := range c.Jobs {
			job := &c.Jobs[at]
			j.checked(2, 1)
			if d := micros(job.LeaseUntil) - micros(job.ClaimedAt); d < least || d > most {
				j.accuse(2, job.ID, []int32{int32(i)}, "job %d was claimed at %s by the database's clock with a lease of %v, not of %v", job.ID, timeText(micros(job.ClaimedAt)), duration(d), duration(max(least, min(d, most))))
			}
		}
	}
}

// jobFields are fields of a job that its enqueue call sets.
type jobFields struct {
	queue, group          string
	sum                   uint32
	priority, maxAttempts int
}

// asEnqueued judges that every claim and the end show the job as it was enqueued: queue and
// payload for promise 1, max_attempts for 5, the group for 6, the priority for 7.
func (j *judge) asEnqueued(l *life) {
	n := l.newJob()
	if n == nil {
		return // the method existence accuses such a job
	}
	for i := range l.attempts {
		if a := &l.attempts[i]; a.Key == l.key {
			j.compare(l, n, jobFields{j.Calls[a.call].Queue, a.Group, a.Sum, a.Priority, a.MaxAttempts}, a.call, a.hi)
		}
	}
	if f := l.final; f != nil && Key(f.Payload) == n.Key {
		j.compare(l, n, jobFields{f.Queue, f.Group, Sum(f.Payload), f.Priority, f.MaxAttempts}, -1, never)
	}
}

// compare judges the fields that a call showed; the call was over at the time by.
func (j *judge) compare(l *life, n *New, is jobFields, call int32, by int64) {
	accuse := func(promise int, what string, is, asked any) {
		j.accuse(promise, l.id, []int32{l.born.call, call}, "job %d has the %s %v, and was enqueued with %v", l.id, what, is, asked)
	}
	j.checked(1, 1)
	if is.queue != n.Queue {
		accuse(1, "queue", quote(is.queue), quote(n.Queue))
	}
	if is.sum != n.Sum {
		accuse(1, "payload with the checksum", is.sum, n.Sum)
	}
	if is.group != n.Group {
		accuse(6, "group", quote(is.group), quote(n.Group))
	}
	if is.priority != n.Priority && !l.mayHaveChanged(Edit, 0, by) {
		accuse(7, "priority", is.priority, n.Priority)
	}
	least, most := int64(n.MaxAttempts), int64(n.MaxAttempts)
	if n.MaxAttempts == 0 {
		s := &j.spans[l.born.call]
		least, most = j.lane(n.Queue).maxAttempts.between(s.lo, s.hi)
	}
	if m := int64(is.maxAttempts); m < least || m > most {
		accuse(5, "max_attempts", m, most)
	}
}

// tooEarly judges that no attempt begins before its run_at, and that a delay or backoff moves
// run_at far enough (promise 4). Without either, run_at stays as it was (promise 7).
func (j *judge) tooEarly(l *life) {
	var before *attempt // the last attempt that was not rolled back
	for i := range l.attempts {
		a := &l.attempts[i]
		j.checked(4, 1)
		if j.Calls[a.call].Verb == Claim && a.RunAt.After(a.ClaimedAt) {
			j.accuse(4, l.id, []int32{a.call}, "%s was given job %d at %s by the database's clock, before its run_at %s", j.holderOf(a), l.id, timeText(micros(a.ClaimedAt)), timeText(micros(a.RunAt)))
		}
		since := int64(0)
		if before != nil {
			since = before.lo
		}
		if !l.mayHaveChanged(Edit, since, a.hi) && !l.mayBeRequeued(since, a.hi) {
			j.checkRunAt(l, before, a)
		}
		if !a.rolledBack() {
			before = a
		}
	}
}

// checkRunAt judges an attempt's run_at by the attempt before it, or by the enqueue call.
func (j *judge) checkRunAt(l *life, before, a *attempt) {
	_, runAt := j.clock.client(a.RunAt)
	if before == nil {
		n := l.newJob()
		if n == nil || a.Attempt != 1 || a.Key != l.key {
			return
		}
		earliest := j.spans[l.born.call].lo + n.Delay.Microseconds()
		if runAt < earliest || micros(a.RunAt) < micros(n.RunAt) {
			j.accuse(4, l.id, []int32{l.born.call, a.call}, "job %d was given to %s with the run_at %s, and was enqueued for %s at the earliest", l.id, j.holderOf(a), timeText(runAt), timeText(max(earliest, micros(n.RunAt))))
		}
		return
	}
	if before.fate != Done || before.Attempt+1 != a.Attempt {
		return
	}
	moved := false
	for _, e := range before.finishes {
		o := j.outcomeOf(e)
		if o.Ending != dibs.EndRetry && o.Ending != dibs.EndSnooze || j.outcome(e) > open {
			continue
		}
		moved = true
		if earliest := j.spans[e.call].lo + j.delay(l, before, o); j.outcome(e) == accepted && runAt < earliest {
			j.accuse(4, l.id, []int32{before.call, e.call, a.call}, "job %d was given to %s with the run_at %s, and had been put off until %s at the earliest", l.id, j.holderOf(a), timeText(runAt), timeText(earliest))
		}
	}
	if !moved && !a.RunAt.Equal(before.RunAt) {
		j.accuse(7, l.id, []int32{before.call, a.call}, "job %d was given to %s with the run_at %s, and to %s with the run_at %s, though nobody had put it off: it lost its place", l.id, j.holderOf(before), timeText(micros(before.RunAt)), j.holderOf(a), timeText(micros(a.RunAt)))
	}
}

// delay returns the shortest delay, in microseconds, that a retry or snooze may cause.
func (j *judge) delay(l *life, a *attempt, o *dibs.Outcome) int64 {
	if o.Delay != nil {
		return o.Delay.Microseconds()
	}
	b := j.lane(l.queue).backoff
	if b == nil {
		return 0
	}
	return b.Delay(a.Attempt-a.Excused, -1).Microseconds()
}
