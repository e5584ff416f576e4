package history

import (
	"github.com/dibs-queue/dibs"
)

// gathered holds what the promises about several jobs need to know of each job.
type gathered struct {
	crowds     map[crowd]*members
	keyHolders map[[2]string][]holder // holders of a key, by queue and unique key
	turnJobs   map[crowd][]*turnJob   // jobs of groups in fair queues
}

// crowd names a group of a queue, or the jobs of a queue without a group.
type crowd struct{ queue, group string }

type members struct {
	runs  []run   // filled only for groups and for queues that ever had a limit
	held  periods // when runs, also unknown ones, may have held places
	waits []wait  // sorted by job
}

// rank is a job's place in the order of a fifo queue.
type rank struct{ priority, runAt, id int64 }

func (r rank) before(s rank) bool {
	if r.priority != s.priority {
		return r.priority < s.priority
	}
	if r.runAt != s.runAt {
		return r.runAt < s.runAt
	}
	return r.id < s.id
}

// run is one attempt.
type run struct {
	rank
	call     int32
	resume   bool
	notFirst bool  // the job had an earlier attempt
	lo, hi   int64 // the earliest and latest time at which it began
	end      int64 // the earliest time at which it ended
	at       int64 // when it began by the database's clock; 0: it may not have begun
}

// wait is a time during which a job could certainly be claimed: it was visible, due,
// unlocked, and not held by a worker.
type wait struct {
	rank
	ranked        bool // the rank is known
	swept         bool // the wait needs a sweep first, since it began with the end of a lease
	follows       bool // it began, or had to end, with the ends of jobs that the job comes after
	from, to      int64
	placeKeptFrom int64 // a strict queue keeps the job's place in its group from this time on
	call          int32 // the call that ended the wait; -1: none
}

func (j *judge) members(queue, group string) *members {
	if j.crowds == nil {
		j.crowds = make(map[crowd]*members)
	}
	c := crowd{queue, group}
	if j.crowds[c] == nil {
		j.crowds[c] = &members{}
	}
	return j.crowds[c]
}

// collect gathers one job's runs and waits, and the time during which it held a unique key.
func (j *judge) collect(l *life) {
	limited := j.lane(l.queue).limited() || j.lane(l.queue).rated("")
	m := j.members(l.queue, l.group)
	if limited || l.group != "" {
		j.notePlaces(l, &m.held)
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if limited || l.group != "" {
			end := a.endLo
			if i+1 < len(l.attempts) {
				end = min(end, l.attempts[i+1].lo)
			}
			if j.mayBeResumed(l, j.Calls[a.call].Worker, end) {
				end = a.hi
			}
			m.runs = append(m.runs, run{rankOf(a.Job), a.call, j.Calls[a.call].Verb == Resume, a.Attempt > 1, a.lo, a.hi, end, a.startedAt()})
		}
		if w, ok := j.waitBefore(l, i); ok {
			m.waits = append(m.waits, w)
		}
	}
	if w, ok := j.waitUnclaimed(l); ok {
		m.waits = append(m.waits, w)
	}
	j.noteKey(l)
}

// startedAt is when the attempt began by the database's clock, or 0 if that is not certain.
func (a *attempt) startedAt() int64 {
	if a.fate != Done || a.rolledBack() {
		return 0
	}
	return micros(a.ClaimedAt)
}

func rankOf(job *Job) rank { return rank{int64(job.Priority), micros(job.RunAt), job.ID} }

// waitBefore returns how long the job certainly waited for its i-th attempt. It returns
// false if a call without an answer may have interrupted the wait.
func (j *judge) waitBefore(l *life, i int) (wait, bool) {
	a := &l.attempts[i]
	w := wait{rank: rankOf(a.Job), ranked: true, to: a.lo, call: a.call, placeKeptFrom: never}
	visible := int64(0)
	p := i - 1
	for p >= 0 && l.attempts[p].rolledBack() {
		visible = max(visible, l.attempts[p].unlockedBy)
		p--
	}
	switch {
	case p < 0 && a.Attempt == 1 && l.born.call >= 0:
		visible = max(visible, j.spans[l.born.call].seenHi)
		if released, _ := j.releasedBy(l.id); released > 0 {
			visible, w.follows, w.ranked = max(visible, released+limbo.Microseconds()), true, false
		}
	case p >= 0 && l.attempts[p].fate == Done && l.attempts[p].Attempt+1 == a.Attempt:
		visible = max(visible, l.attempts[p].endHi)
		w.swept, w.placeKeptFrom = j.waitsAfter(l.queue, &l.attempts[p], visible)
	default:
		return w, false
	}
	for _, e := range l.changes {
		s := &j.spans[e.call]
		switch {
		case s.lo >= a.hi || s.hi < visible:
		case s.hi == never || s.lo >= a.lo: // the claim may have found the job changed
			return w, false
		default:
			visible, w.swept = max(visible, s.unlockedBy), false
			w.placeKeptFrom = max(w.placeKeptFrom, visible)
			if j.Calls[e.call].Verb == Requeue {
				w.placeKeptFrom = never
			}
		}
	}
	_, dueFrom := j.clock.client(a.RunAt)
	if l.group != "" {
		dueFrom += j.slack() // a claim must first admit the jobs of a group that have become due
	}
	w.from = max(visible, dueFrom)
	return w, w.from < w.to || w.placeKeptFrom < w.to
}

// waitsAfter describes the job's wait after an attempt, which others see from the time visible on: swept says that
// it needs a sweep first, and placeKeptFrom is when a strict queue begins to keep the job's place.
func (j *judge) waitsAfter(queue string, a *attempt, visible int64) (swept bool, placeKeptFrom int64) {
	for _, e := range a.finishes {
		if j.outcome(e) != accepted {
			continue
		}
		if strict, _ := j.lane(queue).strict.between(j.spans[e.call].lo, visible); strict == 1 {
			return false, visible
		}
		return false, never
	}
	return true, never
}

// waitUnclaimed returns how long a job that was never claimed could have been claimed.
func (j *judge) waitUnclaimed(l *life) (wait, bool) {
	n := l.newJob()
	if n == nil || l.final == nil || l.final.Attempt > 0 || len(l.attempts) > 0 {
		return wait{}, false
	}
	s := &j.spans[l.born.call]
	_, runAt := j.clock.client(n.RunAt)
	w := wait{rank: rank{id: l.id}, from: max(s.seenHi, s.hi+n.Delay.Microseconds(), runAt), to: never, placeKeptFrom: never, call: -1}
	if len(l.changes) > 0 {
		w.call = l.changes[0].call
		w.to = j.spans[w.call].lo
	}
	if released, doomed := j.releasedBy(l.id); released > 0 {
		w.follows = true
		if w.from = max(w.from, released+limbo.Microseconds()); doomed < never {
			w.from = max(s.seenHi, doomed) + limbo.Microseconds()
		}
		if l.final.Cause != 0 {
			cancelled, _ := j.clock.client(l.final.FinishedAt)
			w.to = min(w.to, cancelled)
		} else if l.final.State.Final() && len(l.changes) == 0 {
			return w, false
		}
	} else if len(l.changes) == 0 && l.final.State.Final() {
		return w, false
	}
	return w, s.fate == Done && w.from < w.to
}

// holder is a job that certainly held its unique key.
type holder struct {
	id       int64
	call     int32
	from, to int64
}

// noteKey notes when the job certainly held its unique key. One that comes after others may give it up because of those.
func (j *judge) noteKey(l *life) {
	n := l.newJob()
	if n == nil || n.UniqueKey == "" || len(n.After) > 0 || j.spans[l.born.call].fate != Done {
		return
	}
	if j.keyHolders == nil {
		j.keyHolders = make(map[[2]string][]holder)
	}
	key := [2]string{n.Queue, n.UniqueKey}
	h := holder{id: l.id, call: l.born.call, from: j.spans[l.born.call].seenHi, to: j.keyHeldUntil(l, n)}
	if h.from < h.to {
		j.keyHolders[key] = append(j.keyHolders[key], h)
	}
}

// keyHeldUntil returns the time up to which the job certainly held its unique key.
func (j *judge) keyHeldUntil(l *life, n *New) int64 {
	to := int64(never)
	for _, e := range l.changes {
		to = min(to, j.spans[e.call].lo)
	}
	lastNumber := 0
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Attempt > lastNumber+1 { // a claim without an answer took the job in between
			return min(to, j.spans[l.born.call].seenHi)
		}
		lastNumber = a.Attempt
		if n.UniqueUntil == dibs.UntilClaimed {
			to = min(to, a.lo)
		}
		if a.Attempt-a.Excused >= a.MaxAttempts {
			to = min(to, a.leaseLo)
		}
		for _, e := range a.finishes {
			if a.finalState(j.outcomeOf(e)) != "" && j.outcome(e) <= open {
				to = min(to, j.spans[e.call].seenLo)
			}
		}
	}
	if l.final == nil || l.final.Attempt != lastNumber {
		to = min(to, j.spans[l.born.call].seenHi)
	}
	return to
}
