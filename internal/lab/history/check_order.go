package history

import (
	"cmp"
	"container/heap"
	"slices"
)

// order judges promise 7 for jobs without a group, and the order within groups of
// limit 1 (the second half of promise 6).
func (j *judge) order() {
	takes := make(map[string][]take)
	for i, c := range j.Calls {
		if c.Verb != Claim || c.Fate != Done || c.Kinds {
			continue
		}
		t := take{lo: j.spans[i].lo, hi: micros(c.End), call: int32(i)}
		for at := range c.Jobs {
			if r := rankOf(&c.Jobs[at]); c.Jobs[at].Group == "" && t.rank.before(r) {
				t.rank = r
			}
		}
		if t.id != 0 {
			takes[c.Queue] = append(takes[c.Queue], t)
		}
	}
	for c, m := range j.crowds {
		if c.group == "" {
			j.inQueue(c.queue, takes[c.queue], m.waits)
			continue
		}
		j.inGroup(c, m)
	}
}

// take is one claim, with the rank of the last job in order that it took.
type take struct {
	rank
	call     int32
	notFirst bool  // the job had an earlier attempt
	lo, hi   int64 // the earliest and latest time at which the claim acted
}

func (j *judge) inQueue(queue string, takes []take, waits []wait) {
	l := j.lane(queue)
	late := j.OrderSlack.Microseconds()
	ready := slices.DeleteFunc(slices.Clone(waits), func(w wait) bool { return !w.ranked || w.swept || w.to-w.from <= late })
	for i := range ready {
		ready[i].from += late
	}
	eachPassedOver(takes, ready, func(t *take, w *wait) {
		j.checked(7, 1)
		if w == nil || j.takeExcused(t, w) {
			return
		}
		if least, _ := l.fifo.between(w.from, t.hi); least == 0 || j.unknownClaim(l, t.lo, t.hi) {
			return
		}
		j.accuse(7, w.id, []int32{t.call, w.call}, "a claim at %s took job %d (priority %d) from queue %s and passed over job %d (priority %d), which comes before it, and could be claimed from %s until %s", timeText(t.lo), t.id, t.priority, quote(queue), w.id, w.priority, timeText(w.from-late), timeText(w.to))
	})
}

// takeExcused reports whether a held snapshot or a restart lets the claim pass over a job
// that became claimable shortly before.
func (j *judge) takeExcused(t *take, w *wait) bool {
	return w.from+j.grace > t.lo && j.serverAway(w.from, t.hi)
}

func (j *judge) inGroup(c crowd, m *members) {
	l := j.lane(c.queue)
	var takes []take
	for _, r := range m.runs {
		if !r.resume {
			takes = append(takes, take{r.rank, r.call, r.notFirst, r.lo, r.hi})
		}
	}
	slices.SortFunc(takes, func(a, b take) int { return cmp.Compare(a.lo, b.lo) })
	ready := slices.DeleteFunc(slices.Clone(m.waits), func(w wait) bool { return !w.ranked || w.from >= w.to })
	for _, w := range m.waits {
		if least, _ := l.strict.between(w.placeKeptFrom, w.to); w.placeKeptFrom < w.to && least == 1 {
			w.priority, w.from = -1, w.placeKeptFrom // it precedes all others, whatever its own priority is
			ready = append(ready, w)
		}
	}
	eachPassedOver(takes, ready, func(t *take, w *wait) {
		j.checked(6, 1)
		if w == nil || j.unknownClaim(l, t.lo, t.hi) {
			return
		}
		since, why := w.from, "comes before it and could be claimed"
		if w.priority < 0 {
			// Under another limit, other jobs may have kept places too.
			since, why = 0, "kept its place in the strict queue, waiting for its retry,"
		} else if fifo, _ := l.fifo.between(w.from, t.hi); fifo == 0 {
			return
		} else if _, strict := l.strict.between(0, t.hi); strict == 1 && t.notFirst {
			return // the job that was taken had kept its place
		}
		if least, most := l.groupLimits(c.group, since, t.hi); least != 1 || most != 1 {
			return
		}
		j.accuse(6, w.id, []int32{t.call, w.call}, "job %d of group %s, of which one may run at a time, was claimed at %s, though job %d %s from %s until %s", t.id, quote(c.group), timeText(t.hi), w.id, why, timeText(w.from), timeText(w.to))
	})
}

// eachPassedOver calls f for each take with a job that comes before it and could be claimed
// during the whole call, or with nil. The takes are in the order of lo.
func eachPassedOver(takes []take, waits []wait, f func(*take, *wait)) {
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
	var ready byRank
	next := 0
	for i := range takes {
		t := &takes[i]
		for ; next < len(waits) && waits[next].from <= t.lo; next++ {
			heap.Push(&ready, &waits[next])
		}
		var passedOver *wait
		var busy []*wait // waits that ended during this take: another call may have taken the job
		for len(ready) > 0 && ready[0].rank.before(t.rank) {
			w := ready[0]
			if w.to > t.hi {
				passedOver = w
				break
			}
			heap.Pop(&ready)
			if w.to > t.lo {
				busy = append(busy, w)
			}
		}
		f(t, passedOver)
		for _, w := range busy {
			heap.Push(&ready, w)
		}
	}
}

// byRank is a heap of waits, with the lowest rank on top.
type byRank []*wait

func (h byRank) Len() int           { return len(h) }
func (h byRank) Less(a, b int) bool { return h[a].rank.before(h[b].rank) }
func (h byRank) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *byRank) Push(x any)        { *h = append(*h, x.(*wait)) }
func (h *byRank) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}
