package history

import (
	"cmp"
	"slices"
	"sort"
)

// late judges promise 4 while the run goes on: that no claim came back with room left
// while a job had been there to take for longer than promised. What may have kept the
// claim from taking it excuses it: a pause, a limit, a server that was away, and
// another call that may just have locked the job. A job of a group, or of a queue with
// a limit, counts only if certainly a place was free all that time, and if no other
// call was about that takes turns with claims. Of the rest it is judged that it ended.
func (j *judge) late() {
	held := make(map[string]*periods)
	for c, m := range j.crowds {
		m.held.sort()
		if j.lane(c.queue).limited() {
			if held[c.queue] == nil {
				held[c.queue] = &periods{}
			}
			held[c.queue].join(&m.held)
		}
	}
	for _, p := range held {
		p.sort()
	}
	for c, m := range j.crowds {
		long := slices.DeleteFunc(slices.Clone(m.waits), func(w wait) bool { return w.to-w.from <= j.grace })
		j.checked(4, len(m.waits)-len(long)) // the others are counted when they are found
		slices.SortFunc(long, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
		j.overlooked(c, long, func(s *shortClaim) bool { return j.offered(c, &m.held, held[c.queue], s) })
	}
}

// overlooked finds the claims that overlooked one of the waits, which are in the order
// of their beginning. One accusation is enough for as long as that job waits.
func (j *judge) overlooked(c crowd, waits []wait, offered func(*shortClaim) bool) {
	short := j.lane(c.queue).short
	var longest *wait // the longest of the waits that are long enough
	for n := 0; n < len(short) && (longest != nil || len(waits) > 0); n++ {
		s := &j.spans[short[n].call]
		for ; len(waits) > 0 && waits[0].from+j.grace < s.lo; waits = waits[1:] {
			if longest == nil || waits[0].to > longest.to {
				longest = &waits[0]
			}
		}
		from := int64(never) // when the next claim to look at began
		switch {
		case longest == nil || longest.to <= s.hi:
			longest = nil
			if len(waits) > 0 {
				from = waits[0].from + j.grace
			}
		case short[n].steady+j.grace >= s.lo || !offered(&short[n]):
			continue
		default:
			w, asked := longest, j.Calls[short[n].call]
			j.checked(4, 1)
			j.accuse(4, w.id, []int32{short[n].call, w.call}, "a claim at %s asked for %d jobs of queue %s and got %d, but not job %d, which nobody had held since %s: it was in limbo for more than %v", show(s.lo), asked.Want, quote(c.queue), len(asked.Jobs), w.id, show(w.from), limbo)
			from, longest = w.to, nil
		}
		n += sort.Search(len(short)-n-1, func(i int) bool { return j.spans[short[n+1+i].call].lo > from })
	}
}

// offered reports whether nothing kept the claim from a job of the crowd, nor had
// for as long as a job may wait. Held are the places of the crowd, all those of its queue
// if that has a limit.
func (j *judge) offered(c crowd, held, all *periods, claim *shortClaim) bool {
	l, s := j.lane(c.queue), &j.spans[claim.call]
	since := s.lo - j.grace
	if _, paused := l.paused.between(since, s.hi); paused == 1 || j.faulty(since, s.hi) {
		return false
	}
	least, most := l.concurrency.between(since, s.hi)
	if c.group == "" && least == unlimited {
		return !j.clouded(l, s.lo, s.hi)
	}
	if !claim.alone || j.forgets(c.queue) || least != most {
		return false
	}
	if least < unlimited && all.most(since, s.hi) >= least {
		return false
	}
	places, _ := l.places(c.group, since, s.hi)
	return c.group == "" || held.most(since, s.hi) < places
}

// periods are when places may have been held.
type periods struct{ from, to []int64 }

func (p *periods) add(from, to int64) {
	p.from, p.to = append(p.from, from), append(p.to, to)
}

func (p *periods) join(q *periods) {
	p.from, p.to = append(p.from, q.from...), append(p.to, q.to...)
}

func (p *periods) sort() {
	slices.Sort(p.from)
	slices.Sort(p.to)
}

// most is how many places may have been held at once at some time from lo to hi.
func (p *periods) most(lo, hi int64) int64 {
	begun := sort.Search(len(p.from), func(i int) bool { return p.from[i] > lo })
	ended := sort.Search(len(p.to), func(i int) bool { return p.to[i] >= lo })
	most := begun - ended
	for ; begun < len(p.from) && p.from[begun] <= hi; begun++ {
		for ended < len(p.to) && p.to[ended] < p.from[begun] {
			ended++
		}
		most = max(most, begun+1-ended)
	}
	return int64(most)
}

// closed reports whether the attempt certainly ended its job for good.
func (j *judge) closed(a *attempt) bool {
	return slices.ContainsFunc(a.finishes, func(e event) bool { return j.outcome(e) == accepted && a.ends(j.outcomeOf(e)) != "" })
}

// places notes when the job may have held a place of its group or queue: while it
// was held, until the sweep that finds its lease ended; in a strict queue also while it
// waits for its retry; and at any time between the attempts that somebody without an
// answer may have had.
func (j *judge) places(l *life, held *periods) {
	_, strict := j.lane(l.queue).strict.between(0, never)
	last, given := int64(0), 0 // the last attempt's begin and number
	if l.born.call >= 0 {
		last = j.spans[l.born.call].lo
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if !a.trial() && a.Attempt > given+1 {
			held.add(last, a.hi)
		}
		to := a.endHi
		if to == a.leaseHi {
			to += j.grace
		}
		if strict == 1 && !j.closed(a) {
			to = never
			if i+1 < len(l.attempts) {
				to = l.attempts[i+1].hi
			}
		}
		held.add(a.lo, to)
		if !a.trial() {
			last, given = a.lo, a.Attempt
		}
	}
	if l.final == nil || l.final.Attempt > given {
		held.add(last, never)
	}
}
