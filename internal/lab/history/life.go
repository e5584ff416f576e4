package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// life is everything that happened to one job.
type life struct {
	ix       *index
	id       int64
	key      string
	queue    string
	group    string
	born     place // the enqueue call; call is -1 if nobody enqueued it
	attempts []attempt
	changes  []event // cancels, requeues, edits, and ends by other programs, sorted by Begin
	strays   []event // finishes and extends with a token that no claim of the job returned
	final    *dibs.RawJob
}

// attempt is one claim or resume of the job, and what its holder did with it.
type attempt struct {
	place
	*Job
	span
	finishes []event
	extends  []event
	steps    []event // calls that write a step, and those that read them
	leaseLo  int64   // the earliest end of its lease, if it was not finished
	leaseHi  int64   // the latest end of its lease
	endLo    int64   // the earliest time at which another claim could take the job
	endHi    int64   // the latest time at which another claim could first take the job
}

// The effects that a finish or extend of a job can have.
const (
	accepted = iota
	open     // without an answer: it may have taken effect
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

// rebuild makes l the life of the n-th job, and reuses its memory.
func (ix *index) rebuild(n int, l *life) {
	*l = life{ix: ix, id: ix.ids[n], final: ix.final[ix.ids[n]], born: place{-1, 0}, attempts: l.attempts[:0], changes: l.changes[:0], strays: l.strays[:0]}
	events := ix.events[ix.first[n]:ix.first[n+1]]
	l.identify(events)
	for _, e := range events {
		switch c := ix.Calls[e.call]; c.Verb {
		case Claim, Resume:
			j := &c.Jobs[e.at]
			// A transaction that was rolled back may have claimed its own job, whose id
			// another job got later.
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
		l.assignToAttempt(e)
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		a.boundEnd(ix)
		for _, e := range l.endedElsewhere() {
			s := &ix.spans[e.call]
			a.endLo, a.endHi = min(a.endLo, s.lo), min(a.endHi, max(a.hi, s.hi))
		}
	}
}

// endedElsewhere lists the calls by which another program ended the row or may have ended it.
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
		// The id of a job that was rolled back may have been given to another.
		if c := ix.Calls[e.call]; c.Verb == Enqueue && (l.born.call < 0 || c.New[e.at].Key == l.key) {
			l.born = e.place
		}
	}
	if p, ok := ix.news[l.key]; ok && l.key != "" && (l.born.call < 0 || l.newJob().Key != l.key) {
		if n := &ix.Calls[p.call].New[p.at]; n.ID == 0 || n.ID == l.id {
			l.born = p
		}
	}
	if n := l.newJob(); n != nil {
		l.queue, l.group = n.Queue, n.Group
		if l.key == "" {
			l.key = n.Key
		}
	}
}

// newJob returns the job as its enqueue call described it, or nil.
func (l *life) newJob() *New {
	if l.born.call < 0 {
		return nil
	}
	return &l.ix.Calls[l.born.call].New[l.born.at]
}

func (l *life) assignToAttempt(e event) {
	c := l.ix.Calls[e.call]
	var token dibs.Token
	switch c.Verb {
	case Finish:
		token = c.Outcomes[e.at].Token
	case Extend, PutStep, Steps:
		token = c.Leases[e.at].Token
	default:
		return
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Token != token {
			continue
		}
		switch c.Verb {
		case Finish:
			a.finishes = append(a.finishes, e)
		case Extend:
			a.extends = append(a.extends, e)
		default:
			a.steps = append(a.steps, e)
		}
		return
	}
	l.strays = append(l.strays, e)
}

// rolledBack reports whether the attempt was undone with the transaction that claimed the job.
func (a *attempt) rolledBack() bool { return a.fate == Nothing }

func (a *attempt) inTx(ix *index) bool { return ix.Calls[a.call].Tx != "" }

// inOwnTx reports whether a finish is in the transaction that claimed the job.
func (a *attempt) inOwnTx(e event, ix *index) bool {
	return a.inTx(ix) && ix.Calls[e.call].Tx == ix.Calls[a.call].Tx
}

// boundEnd works out the earliest and latest end of the attempt and of its lease.
func (a *attempt) boundEnd(ix *index) {
	if a.rolledBack() { // only the open transaction held the job
		a.leaseLo, a.leaseHi = never, never
		a.endLo, a.endHi = a.openUntil, a.unlockedBy
		return
	}
	a.leaseLo, a.leaseHi = a.leaseEnd(ix, never, -1)
	if a.inTx(ix) { // an open transaction holds the job even after the lease
		a.leaseLo, a.leaseHi = max(a.leaseLo, a.seenLo), max(a.leaseHi, a.unlockedBy)
	}
	a.endLo, a.endHi = a.leaseLo, a.leaseHi
	if a.inTx(ix) && a.fate == Unknown { // the claim may have been rolled back
		a.endLo = min(a.endLo, a.openUntil)
	}
	for _, e := range a.finishes {
		s := &ix.spans[e.call]
		switch ix.outcome(e) {
		case accepted:
			a.endLo, a.endHi = min(a.endLo, s.seenLo), min(a.endHi, s.seenHi)
		case open:
			a.endLo = min(a.endLo, s.seenLo)
		}
	}
	for _, events := range [][]event{a.finishes, a.steps} {
		for _, e := range events {
			if s := &ix.spans[e.call]; ix.Calls[e.call].Tx != "" { // the transaction locked the row even after the lease
				a.endHi = max(a.endHi, s.unlockedBy)
			}
		}
	}
}

// leaseEnd bounds the end of the lease by the extends that began by the time begunBy, without
// the call except. The last extend decides, also if it shortened the lease.
func (a *attempt) leaseEnd(ix *index, begunBy int64, except int32) (lo, hi int64) {
	type end struct{ lo, hi, answered int64 }
	first, latest := ix.clock.client(a.LeaseUntil)
	last := []end{{first, latest, a.hi}} // the claim and extends that may be the last one
	var more int64                       // how much extends without an answer may have added
	for _, e := range a.extends {
		s := &ix.spans[e.call]
		if e.call == except || s.lo > begunBy {
			continue
		}
		d := ix.Calls[e.call].Lease.Microseconds()
		switch ix.outcome(e) {
		case accepted:
			if s.hi <= begunBy {
				last = slices.DeleteFunc(last, func(l end) bool { return l.answered < s.lo })
			}
			for i := range last {
				if last[i].answered == never { // the earlier extend may act after this one
					last[i].lo = max(last[i].lo, s.lo+last[i].hi-grain)
				}
			}
			last = append(last, end{s.lo + d - grain - ix.LeaseSlack.Microseconds(), s.hi + d + grain, s.hi})
		case open:
			last = append(last, end{s.lo + d - grain - ix.LeaseSlack.Microseconds(), d, never}) // hi holds the length until the next extend adds it
			more += d
		}
	}
	lo, hi = never, 0
	for _, l := range last {
		lo = min(lo, l.lo)
		if l.answered != never {
			hi = max(hi, l.hi)
		}
	}
	return lo, hi + more + ix.LeaseSlack.Microseconds()
}

// mayBeRequeued reports whether the job may have been requeued by a call that acted at some time
// from the first time to the second.
func (l *life) mayBeRequeued(from, by int64) bool { return l.mayHaveChanged(Requeue, from, by) }

func (l *life) mayHaveChanged(verb Verb, from, by int64) bool {
	return slices.ContainsFunc(l.changes, func(e event) bool {
		s := &l.ix.spans[e.call]
		return l.ix.Calls[e.call].Verb == verb && s.lo <= by && s.hi >= from
	})
}
