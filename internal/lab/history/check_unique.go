package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// unique judges promise 9: no two jobs held one key at the same time, and an enqueuer
// whose key was taken was told of a job that held it.
func (j *judge) unique() {
	for key, holders := range j.keyHolders {
		slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(a.from, b.from) })
		last := holders[0]
		for _, h := range holders[1:] {
			j.checked(9, 1)
			if h.from < last.to {
				j.accuse(9, h.id, []int32{last.call, h.call}, "the jobs %d and %d of queue %s both held the unique key %s from %s until %s at least", last.id, h.id, quote(key[0]), quote(key[1]), timeText(h.from), timeText(min(h.to, last.to)))
			}
			if h.to > last.to {
				last = h
			}
		}
	}
	var l life
	for i, c := range j.Calls {
		if c.Verb != Enqueue || c.Fate != Done {
			continue
		}
		for at := range c.New {
			if c.New[at].Existing {
				j.checked(9, 1)
				j.checkKeyHolder(int32(i), &c.New[at], &l)
			}
		}
	}
}

// checkKeyHolder judges an answer which says that another job holds the key.
func (j *judge) checkKeyHolder(call int32, n *New, l *life) {
	c := j.Calls[call]
	if c.Tx != "" && j.spans[call].fate == Nothing {
		return // the holder may have been rolled back too
	}
	number, ok := j.numbers[n.ID]
	if !ok && j.mayHaveExisted(n, micros(c.End)) {
		return
	}
	if !ok {
		j.accuse(9, n.ID, []int32{call}, "the key %s was said to be held by job %d, which never existed", quote(n.UniqueKey), n.ID)
		return
	}
	j.rebuild(int(number), l)
	m := l.newJob()
	if m == nil {
		return // the method existence accuses such a job
	}
	s := &j.spans[call]
	begin, end := s.lo, micros(c.End)
	switch held := j.keyFreeBy(l, m); {
	case m.Queue != n.Queue || m.UniqueKey != n.UniqueKey:
		j.accuse(9, n.ID, []int32{l.born.call, call}, "the key %s of queue %s was said to be held by job %d, which has the key %s in queue %s", quote(n.UniqueKey), quote(n.Queue), n.ID, quote(m.UniqueKey), quote(m.Queue))
	case j.spans[l.born.call].seenLo > end && j.Calls[l.born.call].Tx != c.Tx:
		j.accuse(9, n.ID, []int32{l.born.call, call}, "the key %s was said to be held by job %d before that was enqueued", quote(n.UniqueKey), n.ID)
	case held < begin:
		j.accuse(9, n.ID, append(l.calls(), call), "the key %s was said at %s to be held by job %d, which had given it up by %s", quote(n.UniqueKey), timeText(begin), n.ID, timeText(held))
	}
}

// mayHaveExisted reports whether an enqueue without an answer, begun by the time by, may
// have made a job with the unique key of n that was deleted later.
func (j *judge) mayHaveExisted(n *New, by int64) bool {
	return j.mayDelete(n.Queue) && slices.ContainsFunc(j.absent[[2]string{n.Queue, n.UniqueKey}], func(a *absence) bool {
		return j.spans[a.call].lo <= by
	})
}

// keyFreeBy returns the time by which the job had certainly given up its key.
func (j *judge) keyFreeBy(l *life, n *New) int64 {
	if l.mayBeRequeued(0, never) {
		return never
	}
	until := int64(never)
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.fate == Done && n.UniqueUntil == dibs.UntilClaimed {
			until = min(until, a.seenHi)
		}
		for _, e := range a.finishes {
			if a.finalState(j.outcomeOf(e)) != "" && j.outcome(e) == accepted {
				until = min(until, j.spans[e.call].seenHi)
			}
		}
	}
	return until
}
