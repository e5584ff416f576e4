package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// unique judges promise 9: no two jobs certainly held one key at the same time, and
// who was told that a key is taken was told of a job that held it.
func (j *judge) unique() {
	for key, holders := range j.keys {
		slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(a.from, b.from) })
		last := holders[0]
		for _, h := range holders[1:] {
			j.checked(9, 1)
			if h.from < last.to {
				j.accuse(9, h.id, []int32{last.call, h.call}, "the jobs %d and %d of queue %s both held the unique key %s from %s until %s at least", last.id, h.id, quote(key[0]), quote(key[1]), show(h.from), show(min(h.to, last.to)))
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
				j.existing(int32(i), &c.New[at], &l)
			}
		}
	}
}

// existing judges the answer that another job holds the key.
func (j *judge) existing(call int32, n *New, l *life) {
	c := j.Calls[call]
	if c.Tx != "" && j.spans[call].fate == Nothing {
		return // the holder may have been rolled back too
	}
	number, ok := j.known[n.ID]
	if !ok && j.unheard(n, micros(c.End)) {
		return
	}
	if !ok {
		j.accuse(9, n.ID, []int32{call}, "the key %s was said to be held by job %d, which there never was", quote(n.UniqueKey), n.ID)
		return
	}
	j.live(int(number), l)
	m := l.new()
	if m == nil {
		return // promise 1 tells
	}
	s := &j.spans[call]
	begin, end := s.lo, micros(c.End)
	switch held := j.mayHoldUntil(l, m); {
	case m.Queue != n.Queue || m.UniqueKey != n.UniqueKey:
		j.accuse(9, n.ID, []int32{l.born.call, call}, "the key %s of queue %s was said to be held by job %d, which has the key %s in queue %s", quote(n.UniqueKey), quote(n.Queue), n.ID, quote(m.UniqueKey), quote(m.Queue))
	case j.spans[l.born.call].seen > end && j.Calls[l.born.call].Tx != c.Tx:
		j.accuse(9, n.ID, []int32{l.born.call, call}, "the key %s was said to be held by job %d before that was enqueued", quote(n.UniqueKey), n.ID)
	case held < begin:
		j.accuse(9, n.ID, append(l.calls(), call), "the key %s was said at %s to be held by job %d, which had given it up by %s", quote(n.UniqueKey), show(begin), n.ID, show(held))
	}
}

// unheard reports whether a job of that key, of whose enqueueing nobody was told, may
// have been there by the time by: it is not now, and need not be.
func (j *judge) unheard(n *New, by int64) bool {
	return j.forgets(n.Queue) && slices.ContainsFunc(j.absent[[2]string{n.Queue, n.UniqueKey}], func(a *absence) bool {
		return j.spans[a.call].lo <= by
	})
}

// mayHoldUntil is when the job had certainly given up its key.
func (j *judge) mayHoldUntil(l *life, n *New) int64 {
	if l.requeued(0, never) {
		return never
	}
	until := int64(never)
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.fate == Done && n.UniqueUntil == dibs.UntilClaimed {
			until = min(until, a.shown)
		}
		for _, e := range a.finishes {
			if a.ends(j.outcomeOf(e)) != "" && j.outcome(e) == accepted {
				until = min(until, j.spans[e.call].shown)
			}
		}
	}
	return until
}
