package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// life is all that happened to one job.
type life struct {
	ix       *index
	id       int64
	key      string
	queue    string
	group    string
	born     place // the enqueue call; call is -1 if nobody enqueued it
	attempts []attempt
	changes  []event // cancels, requeues, edits, and ends by other programs, by Begin
	strays   []event // finishes and extends with a token that no claim gave
	final    *dibs.RawJob
}

// attempt is one claim or resume of the job, and what its holder did with it.
type attempt struct {
	place
	*Job
	span
	finishes []event
	extends  []event
	leaseLo  int64 // unless finished, its lease ended not before
	leaseHi  int64 // and certainly by then
	endLo    int64 // nobody else could take the job before
	endHi    int64 // anybody could from then on
}

// what a finish or extend of a job came to.
const (
	accepted = iota // it took effect
	open            // nobody knows
	refused
	void // it failed or was rolled back
)

func (ix *index) outcome(e event) int {
	switch fate := ix.spans[e.call].fate; {
	case e.refused:
		return refused
	case fate == Done:
		return accepted
	case fate == Unknown:
		return open
	default:
		return void
	}
}

func (ix *index) outcomeOf(e event) *dibs.Outcome { return &ix.Calls[e.call].Outcomes[e.at] }

// live rebuilds the life of the n-th job; l's memory is used again.
func (ix *index) live(n int, l *life) {
	*l = life{ix: ix, id: ix.ids[n], final: ix.final[ix.ids[n]], born: place{-1, 0}, attempts: l.attempts[:0], changes: l.changes[:0], strays: l.strays[:0]}
	events := ix.events[ix.first[n]:ix.first[n+1]]
	l.identify(events)
	for _, e := range events {
		switch c := ix.Calls[e.call]; c.Verb {
		case Claim, Resume:
			j := &c.Jobs[e.at]
			// A rolled back transaction may have seen its own job under an id that
			// another job got afterwards.
			if s := ix.spans[e.call]; s.fate != Nothing || j.Key == l.key {
				l.attempts = append(l.attempts, attempt{place: e.place, Job: j, span: s})
			}
		case Cancel, Requeue, Edit, Ended:
			l.changes = append(l.changes, e)
		}
	}
	slices.SortStableFunc(l.attempts, func(a, b attempt) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(yes(a.fate != Nothing), yes(b.fate != Nothing)))
	})
	for _, e := range events {
		l.assign(e)
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		a.bound(ix)
		for _, e := range l.endedElsewhere() {
			s := &ix.spans[e.call]
			a.endLo, a.endHi = min(a.endLo, s.lo), min(a.endHi, max(a.hi, s.hi))
		}
	}
}

// endedElsewhere are the calls by which another program ended the row, or may have.
func (l *life) endedElsewhere() (all []event) {
	for _, e := range l.changes {
		if l.ix.Calls[e.call].Verb == Ended {
			all = append(all, e)
		}
	}
	return all
}

// identify finds the job's key and the call that enqueued it.
func (l *life) identify(events []event) {
	ix := l.ix
	if l.final != nil {
		l.key, l.queue, l.group = Key(l.final.Payload), l.final.Queue, l.final.Group
	}
	for _, e := range events {
		c := ix.Calls[e.call]
		if l.key == "" && (c.Verb == Claim || c.Verb == Resume) && ix.spans[e.call].fate != Nothing {
			l.key, l.queue, l.group = c.Jobs[e.at].Key, c.Queue, c.Jobs[e.at].Group
		}
	}
	for _, e := range events {
		// An id that was rolled back may have been given again.
		if c := ix.Calls[e.call]; c.Verb == Enqueue && (l.born.call < 0 || c.New[e.at].Key == l.key) {
			l.born = e.place
		}
	}
	if p, ok := ix.news[l.key]; ok && l.key != "" && (l.born.call < 0 || l.new().Key != l.key) {
		if n := &ix.Calls[p.call].New[p.at]; n.ID == 0 || n.ID == l.id {
			l.born = p
		}
	}
	if n := l.new(); n != nil {
		l.queue, l.group = n.Queue, n.Group
		if l.key == "" {
			l.key = n.Key
		}
	}
}

// new is what was enqueued, or nil.
func (l *life) new() *New {
	if l.born.call < 0 {
		return nil
	}
	return &l.ix.Calls[l.born.call].New[l.born.at]
}

func (l *life) assign(e event) {
	c := l.ix.Calls[e.call]
	var token dibs.Token
	switch c.Verb {
	case Finish:
		token = c.Outcomes[e.at].Token
	case Extend:
		token = c.Leases[e.at].Token
	default:
		return
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Token != token {
			continue
		}
		if c.Verb == Finish {
			a.finishes = append(a.finishes, e)
		} else {
			a.extends = append(a.extends, e)
		}
		return
	}
	l.strays = append(l.strays, e)
}

// trial reports whether the attempt was rolled back with its transaction, and so was none.
func (a *attempt) trial() bool { return a.fate == Nothing }

func (a *attempt) inTx(ix *index) bool { return ix.Calls[a.call].Tx != "" }

// own reports whether a finish is in the transaction that claimed the job.
func (a *attempt) own(e event, ix *index) bool {
	return a.inTx(ix) && ix.Calls[e.call].Tx == ix.Calls[a.call].Tx
}

// bound works out when the attempt ended.
func (a *attempt) bound(ix *index) {
	if a.trial() { // only its open transaction held the job
		a.leaseLo, a.leaseHi = never, never
		a.endLo, a.endHi = a.held, a.until
		return
	}
	a.leaseLo, a.leaseHi = a.lease(ix, never, -1)
	if a.inTx(ix) { // while the transaction is open it holds the job, lease or not
		a.leaseLo, a.leaseHi = max(a.leaseLo, a.seen), max(a.leaseHi, a.until)
	}
	a.endLo, a.endHi = a.leaseLo, a.leaseHi
	if a.inTx(ix) && a.fate == Unknown { // it may have been rolled back
		a.endLo = min(a.endLo, a.held)
	}
	for _, e := range a.finishes {
		s := &ix.spans[e.call]
		switch ix.outcome(e) {
		case accepted:
			a.endLo, a.endHi = min(a.endLo, s.seen), min(a.endHi, s.shown)
		case open:
			a.endLo = min(a.endLo, s.seen)
		}
	}
	for _, e := range a.finishes {
		if s := &ix.spans[e.call]; ix.Calls[e.call].Tx != "" { // it held the row, lease or not
			a.endHi = max(a.endHi, s.until)
		}
	}
}

// lease bounds when the lease ends by what is known of the extends that began by the
// time by, without the one in the call without. The last extend decides: it may also
// have shortened the lease.
func (a *attempt) lease(ix *index, by int64, without int32) (lo, hi int64) {
	type end struct{ lo, hi, done int64 } // done: the call was over
	from, to := ix.clock.client(a.LeaseUntil)
	last := []end{{from, to, a.hi}} // those of which any may be the last
	var more int64                  // by which unknown extends may have lengthened it
	for _, e := range a.extends {
		s := &ix.spans[e.call]
		if e.call == without || s.lo > by {
			continue
		}
		d := ix.Calls[e.call].Lease.Microseconds()
		switch ix.outcome(e) {
		case accepted:
			if s.hi <= by {
				last = slices.DeleteFunc(last, func(l end) bool { return l.done < s.lo })
			}
			for i := range last {
				if last[i].done == never { // it may still have come after this one
					last[i].lo = max(last[i].lo, s.lo+last[i].hi-grain)
				}
			}
			last = append(last, end{s.lo + d - grain - ix.LeaseSlack.Microseconds(), s.hi + d + grain, s.hi})
		case open:
			last = append(last, end{s.lo + d - grain - ix.LeaseSlack.Microseconds(), d, never}) // hi: as long
			more += d
		}
	}
	lo, hi = never, 0
	for _, l := range last {
		lo = min(lo, l.lo)
		if l.done != never {
			hi = max(hi, l.hi)
		}
	}
	return lo, hi + more + ix.LeaseSlack.Microseconds()
}

// requeued reports whether the job may have been requeued in a call that began by by
// and had not certainly ended before from.
func (l *life) requeued(from, by int64) bool { return l.changed(Requeue, from, by) }

func (l *life) changed(verb Verb, from, by int64) bool {
	return slices.ContainsFunc(l.changes, func(e event) bool {
		s := &l.ix.spans[e.call]
		return l.ix.Calls[e.call].Verb == verb && s.lo <= by && s.hi >= from
	})
}
