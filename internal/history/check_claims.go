package history

import (
	"github.com/dibs-queue/dibs"
)

// claims judges each claim by itself: that it took no more than it asked for and
// nothing from a queue that was paused (promise 6, as limits), and that its leases are as
// long as asked for (promise 2).
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
				j.accuse(6, first, []int32{int32(i)}, "a claim at %s got %d jobs of queue %s, which was paused", show(s.lo), len(c.Jobs), quote(c.Queue))
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
				j.accuse(2, job.ID, []int32{int32(i)}, "job %d was claimed at %s by the database's clock for %v, and not for %v", job.ID, show(micros(job.ClaimedAt)), duration(d), duration(max(least, min(d, most))))
			}
		}
	}
}

// looks are what its enqueuer asked a job to be like.
type looks struct {
	queue, group          string
	sum                   uint32
	priority, maxAttempts int
}

// asked judges that the job is as its enqueuer asked, whenever it is seen: the queue and
// the payload for promise 1, attempts for 5, the group for 6, the priority for 7.
func (j *judge) asked(l *life) {
	n := l.new()
	if n == nil {
		return // promise 1 tells
	}
	for i := range l.attempts {
		if a := &l.attempts[i]; a.Key == l.key {
			j.alike(l, n, looks{j.Calls[a.call].Queue, a.Group, a.Sum, a.Priority, a.MaxAttempts}, a.call, a.hi)
		}
	}
	if f := l.final; f != nil && Key(f.Payload) == n.Key {
		j.alike(l, n, looks{f.Queue, f.Group, Sum(f.Payload), f.Priority, f.MaxAttempts}, -1, never)
	}
}

// alike judges the job as the call saw it, which was over at by.
func (j *judge) alike(l *life, n *New, is looks, call int32, by int64) {
	tell := func(promise int, what string, is, asked any) {
		j.accuse(promise, l.id, []int32{l.born.call, call}, "job %d has the %s %v, and was enqueued with %v", l.id, what, is, asked)
	}
	j.checked(1, 1)
	if is.queue != n.Queue {
		tell(1, "queue", quote(is.queue), quote(n.Queue))
	}
	if is.sum != n.Sum {
		tell(1, "payload with the checksum", is.sum, n.Sum)
	}
	if is.group != n.Group {
		tell(6, "group", quote(is.group), quote(n.Group))
	}
	if is.priority != n.Priority && !l.changed(Edit, 0, by) {
		tell(7, "priority", is.priority, n.Priority)
	}
	least, most := int64(n.MaxAttempts), int64(n.MaxAttempts)
	if n.MaxAttempts == 0 {
		s := &j.spans[l.born.call]
		least, most = j.lane(n.Queue).maxAttempts.between(s.lo, s.hi)
	}
	if m := int64(is.maxAttempts); m < least || m > most {
		tell(5, "max_attempts", m, most)
	}
}

// early judges that no attempt began before its run_at, and that this is not before what
// was asked for by a delay or the queue's backoff (promise 4: what is not due does not
// start), and the old one if nothing was (promise 7: it keeps its place).
func (j *judge) early(l *life) {
	var before *attempt // the last attempt that was not rolled back
	for i := range l.attempts {
		a := &l.attempts[i]
		j.checked(4, 1)
		if j.Calls[a.call].Verb == Claim && a.RunAt.After(a.ClaimedAt) {
			j.accuse(4, l.id, []int32{a.call}, "%s was given job %d at %s by the database's clock, before its run_at %s", j.who(a), l.id, show(micros(a.ClaimedAt)), show(micros(a.RunAt)))
		}
		since := int64(0)
		if before != nil {
			since = before.lo
		}
		if !l.changed(Edit, since, a.hi) && !l.requeued(since, a.hi) {
			j.delayed(l, before, a)
		}
		if !a.trial() {
			before = a
		}
	}
}

// delayed judges an attempt's run_at by the one before it, or by what was enqueued.
func (j *judge) delayed(l *life, before, a *attempt) {
	_, runAt := j.clock.client(a.RunAt)
	if before == nil {
		n := l.new()
		if n == nil || a.Attempt != 1 || a.Key != l.key {
			return
		}
		asked := j.spans[l.born.call].lo + n.Delay.Microseconds()
		if runAt < asked || micros(a.RunAt) < micros(n.RunAt) {
			j.accuse(4, l.id, []int32{l.born.call, a.call}, "job %d was given to %s with the run_at %s, and was enqueued for %s at the earliest", l.id, j.who(a), show(runAt), show(max(asked, micros(n.RunAt))))
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
		if asked := j.spans[e.call].lo + j.delay(l, before, o); j.outcome(e) == accepted && runAt < asked {
			j.accuse(4, l.id, []int32{before.call, e.call, a.call}, "job %d was given to %s with the run_at %s, and had been put off until %s at the earliest", l.id, j.who(a), show(runAt), show(asked))
		}
	}
	if !moved && !a.RunAt.Equal(before.RunAt) {
		j.accuse(7, l.id, []int32{before.call, a.call}, "job %d was given to %s with the run_at %s, and to %s with the run_at %s, though nobody had put it off: it lost its place", l.id, j.who(before), show(micros(before.RunAt)), j.who(a), show(micros(a.RunAt)))
	}
}

// delay is the shortest for which a retry or snooze may put the job off.
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
