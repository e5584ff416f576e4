package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// gathered is what the promises about several jobs need of each.
type gathered struct {
	crowds map[crowd]*members
	keys   map[[2]string][]holder // by queue and unique key
	delays []int64                // from the end of a lease to the next claim
}

// crowd is a queue, or a group of one.
type crowd struct{ queue, group string }

type members struct {
	runs  []run   // if there may be a limit
	held  periods // places that those runs and unknown ones may have held
	waits []wait  // in the order of the jobs
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
	call    int32
	resume  bool
	started bool  // it is not the job's first
	lo, hi  int64 // it began within
	end     int64 // and ended not before
}

// wait is a time in which a job certainly could be claimed: visible, due, unlocked
// and held by nobody.
type wait struct {
	rank
	ranked   bool // rank is known
	swept    bool // since a sweep that has to come first: from is when the lease ended
	from, to int64
	placed   int64 // a strict queue keeps its place in its group from then on
	call     int32 // what ended it; -1: nothing
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

// collect gathers the runs and waits of one job, its hold of a unique key, and how
// fast it was claimed again.
func (j *judge) collect(l *life) {
	limited := j.lane(l.queue).limited()
	m := j.members(l.queue, l.group)
	if limited || l.group != "" {
		j.places(l, &m.held)
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if limited || l.group != "" {
			end := a.endLo
			if i+1 < len(l.attempts) {
				end = min(end, l.attempts[i+1].lo)
			}
			if j.resumed(l, j.Calls[a.call].Worker, end) {
				end = a.hi
			}
			m.runs = append(m.runs, run{rankOf(a.Job), a.call, j.Calls[a.call].Verb == Resume, a.Attempt > 1, a.lo, a.hi, end})
		}
		if w, ok := j.waitBefore(l, i); ok {
			m.waits = append(m.waits, w)
		}
		if i > 0 {
			j.recovery(&l.attempts[i-1], a)
		}
	}
	if w, ok := j.waitUnclaimed(l); ok {
		m.waits = append(m.waits, w)
	}
	j.holds(l)
}

func rankOf(job *Job) rank { return rank{int64(job.Priority), micros(job.RunAt), job.ID} }

// waitBefore is how long the job certainly waited for its i-th attempt, if nothing
// unknown came between.
func (j *judge) waitBefore(l *life, i int) (wait, bool) {
	a := &l.attempts[i]
	w := wait{rank: rankOf(a.Job), ranked: true, to: a.lo, call: a.call, placed: never}
	visible := int64(0)
	p := i - 1
	for p >= 0 && l.attempts[p].trial() {
		visible = max(visible, l.attempts[p].until)
		p--
	}
	switch {
	case p < 0 && a.Attempt == 1 && l.born.call >= 0:
		visible = max(visible, j.spans[l.born.call].shown)
	case p >= 0 && l.attempts[p].fate == Done && l.attempts[p].Attempt+1 == a.Attempt:
		visible = max(visible, l.attempts[p].endHi)
		w.swept, w.placed = j.left(l.queue, &l.attempts[p], visible)
	default:
		return w, false
	}
	for _, e := range l.changes {
		s := &j.spans[e.call]
		switch {
		case s.lo >= a.hi || s.hi < visible:
		case s.hi == never || s.lo >= a.lo: // it may have been what the claim found
			return w, false
		default:
			visible, w.swept = max(visible, s.until), false
			w.placed = max(w.placed, visible)
			if j.Calls[e.call].Verb == Requeue {
				w.placed = never
			}
		}
	}
	_, due := j.clock.client(a.RunAt)
	if l.group != "" {
		due += j.slack() // one claim notices for all of the group that its time has come
	}
	w.from = max(visible, due)
	return w, w.from < w.to || w.placed < w.to
}

// left tells how an attempt left its job waiting at visible: by the end of its lease,
// or so that a strict queue keeps its place.
func (j *judge) left(queue string, a *attempt, visible int64) (swept bool, placed int64) {
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

// waitUnclaimed is how long a job that was never claimed could have been.
func (j *judge) waitUnclaimed(l *life) (wait, bool) {
	n := l.new()
	if n == nil || l.final == nil || l.final.Attempt > 0 || len(l.attempts) > 0 {
		return wait{}, false
	}
	s := &j.spans[l.born.call]
	_, runAt := j.clock.client(n.RunAt)
	w := wait{from: max(s.shown, s.hi+n.Delay.Microseconds(), runAt), to: never, placed: never, call: -1}
	if len(l.changes) > 0 {
		w.call = l.changes[0].call
		w.to = j.spans[w.call].lo
	} else if l.final.State.Final() {
		return w, false
	}
	return w, s.fate == Done && w.from < w.to
}

// recovery notes how long it took until somebody else got a job whose holder was gone.
func (j *judge) recovery(a, b *attempt) {
	if a.inTx(j.index) || a.fate != Done || b.fate != Done || a.Attempt+1 != b.Attempt || j.Calls[b.call].Verb != Claim {
		return
	}
	if slices.ContainsFunc(a.finishes, func(e event) bool { return j.outcome(e) <= open }) {
		return
	}
	if len(a.extends) == 0 {
		j.delays = append(j.delays, micros(b.ClaimedAt)-micros(a.LeaseUntil))
		return
	}
	from, _ := j.clock.client(b.ClaimedAt)
	if a.leaseLo < never {
		j.delays = append(j.delays, max(0, from-a.leaseLo))
	}
}

// holder is a job that certainly held its unique key.
type holder struct {
	id       int64
	call     int32
	from, to int64
}

// holds notes when the job certainly held its unique key.
func (j *judge) holds(l *life) {
	n := l.new()
	if n == nil || n.UniqueKey == "" || j.spans[l.born.call].fate != Done {
		return
	}
	if j.keys == nil {
		j.keys = make(map[[2]string][]holder)
	}
	key := [2]string{n.Queue, n.UniqueKey}
	h := holder{id: l.id, call: l.born.call, from: j.spans[l.born.call].shown, to: j.holdsUntil(l, n)}
	if h.from < h.to {
		j.keys[key] = append(j.keys[key], h)
	}
}

// holdsUntil is until when the job certainly held its key.
func (j *judge) holdsUntil(l *life, n *New) int64 {
	to := int64(never)
	for _, e := range l.changes {
		to = min(to, j.spans[e.call].lo)
	}
	given := 0
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Attempt > given+1 { // somebody unknown had it before
			return min(to, j.spans[l.born.call].shown)
		}
		given = a.Attempt
		if n.UniqueUntil == dibs.UntilClaimed {
			to = min(to, a.lo)
		}
		if a.Attempt-a.Excused >= a.MaxAttempts {
			to = min(to, a.leaseLo)
		}
		for _, e := range a.finishes {
			if a.ends(j.outcomeOf(e)) != "" && j.outcome(e) <= open {
				to = min(to, j.spans[e.call].seen)
			}
		}
	}
	if l.final == nil || l.final.Attempt != given {
		to = min(to, j.spans[l.born.call].shown)
	}
	return to
}
