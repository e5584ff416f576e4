package history

import (
	"cmp"
	"slices"
	"sort"
)

// overdue judges promise 4 during the run: no claim returns fewer jobs than it asked for while
// a job has been claimable for longer than promised. A pause, a limit, a server that was
// away, and another call that may have locked the job excuse the claim. A job of a group,
// or of a queue with a limit, counts only if a place was certainly free all that time and
// no call that takes turns with claims was under way. For other jobs, endOfJob judges that
// they ended.
func (j *judge) overdue() {
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
		j.checked(4, len(m.waits)-len(long)) // overlooked counts the long ones
		slices.SortFunc(long, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
		j.overlooked(c, long, func(s *shortClaim) bool { return j.couldTake(c, &m.held, held[c.queue], s) })
	}
}

// overlooked accuses claims that overlooked a waiting job, once for each wait. The waits
// are in the order in which they began.
func (j *judge) overlooked(c crowd, waits []wait, couldTake func(*shortClaim) bool) {
	short := j.lane(c.queue).shortClaims
	var longest *wait // the wait that ends last, among the waits longer than promised
	for n := 0; n < len(short) && (longest != nil || len(waits) > 0); n++ {
		s := &j.spans[short[n].call]
		for ; len(waits) > 0 && waits[0].from+j.grace < s.lo; waits = waits[1:] {
			if longest == nil || waits[0].to > longest.to {
				longest = &waits[0]
			}
		}
		from := int64(never) // claims that began earlier are skipped
		switch {
		case longest == nil || longest.to <= s.hi:
			longest = nil
			if len(waits) > 0 {
				from = waits[0].from + j.grace
			}
		case short[n].claimingSince+j.grace >= s.lo || !couldTake(&short[n]):
			continue
		default:
			w, claim := longest, j.Calls[short[n].call]
			promise, why := 4, "nobody had held"
			if w.follows {
				promise, why = 11, "could start or had to be cancelled, as the jobs that it comes after have ended,"
			}
			j.checked(promise, 1)
			j.accuse(promise, w.id, []int32{short[n].call, w.call}, "a claim at %s asked for %d jobs of queue %s and got %d, but not job %d, which %s since %s: it was in limbo for more than %v", timeText(s.lo), claim.Want, quote(c.queue), len(claim.Jobs), w.id, why, timeText(w.from), limbo)
			from, longest = w.to, nil
		}
		n += sort.Search(len(short)-n-1, func(i int) bool { return j.spans[short[n+1+i].call].lo > from })
	}
}

// couldTake reports whether nothing prevented the claim from taking a job of the crowd, for
// as long as a job may wait. The crowd's jobs held their places in the periods held, and
// those of its whole queue, if that has a limit, in the periods all.
func (j *judge) couldTake(c crowd, held, all *periods, claim *shortClaim) bool {
	l, s := j.lane(c.queue), &j.spans[claim.call]
	since := s.lo - j.grace
	if _, paused := l.paused.between(since, s.hi); paused == 1 || j.serverAway(since, s.hi) {
		return false
	}
	if l.rated("") || c.group != "" && l.rated(c.group) {
		return false // the rate may have held the job up
	}
	least, most := l.concurrency.between(since, s.hi)
	if c.group == "" && least == unlimited {
		return !j.unknownClaim(l, s.lo, s.hi)
	}
	if !claim.undisturbed || j.mayDelete(c.queue) || least != most {
		return false
	}
	if least < unlimited && all.mostAtOnce(since, s.hi) >= least {
		return false
	}
	places, _ := l.groupLimits(c.group, since, s.hi)
	return c.group == "" || held.mostAtOnce(since, s.hi) < places
}

// periods are times during which jobs may have held places, as two separate lists.
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

// mostAtOnce returns how many places may have been held at once at some time from lo to hi.
func (p *periods) mostAtOnce(lo, hi int64) int64 {
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

// endedJob reports whether the attempt certainly brought its job to a final state.
func (j *judge) endedJob(a *attempt) bool {
	return slices.ContainsFunc(a.finishes, func(e event) bool { return j.outcome(e) == accepted && a.finalState(j.outcomeOf(e)) != "" })
}

// notePlaces notes when the job may have held a place of its group or queue: during each
// attempt, until a sweep finds that its lease has ended; in a strict queue also while it
// waits for its retry; and throughout any gap in which a claim without an answer may have
// taken it.
func (j *judge) notePlaces(l *life, held *periods) {
	_, strict := j.lane(l.queue).strict.between(0, never)
	lastBegan, lastNumber := int64(0), 0 // when the last attempt began, and its number
	if l.born.call >= 0 {
		lastBegan = j.spans[l.born.call].lo
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if !a.rolledBack() && a.Attempt > lastNumber+1 {
			held.add(lastBegan, a.hi)
		}
		to := a.endHi
		if to == a.leaseHi {
			to += j.grace
		}
		if strict == 1 && !j.endedJob(a) {
			to = never
			if i+1 < len(l.attempts) {
				to = l.attempts[i+1].hi
			}
		}
		held.add(a.lo, to)
		if !a.rolledBack() {
			lastBegan, lastNumber = a.lo, a.Attempt
		}
	}
	if l.final == nil || l.final.Attempt > lastNumber {
		held.add(lastBegan, never)
	}
}
