package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// Story is what happened to one job.
type Story struct {
	Job    int64
	Queue  string
	Events []Event // in the order of At

	attempts map[dibs.Token]int // the job's attempts by their tokens
	ahead    time.Duration      // by how much the database's clock is ahead of the processes'
}

// Sort is what an event is.
type Sort string

const (
	Enqueued   Sort = "enqueued"
	Claimed    Sort = "claimed"    // from At until End, the lease runs if nobody extends it
	Extended   Sort = "extended"   // as Claimed
	Accepted   Sort = "accepted"   // an outcome was written
	Refused    Sort = "refused"    // an outcome or an extension was refused
	Unanswered Sort = "unanswered" // a call had no answer, or its transaction was not committed for certain
	Asked      Sort = "operator"   // an operator did something to it
	Struck     Sort = "fault"      // something was done to a client that held it
)

// Event is a thing that happened, to one client's knowledge. At is when: of a claim
// by the database's clock, of an accepted outcome when its answer came, and of all
// else when it was begun.
type Event struct {
	Sort    Sort
	Client  string
	At, End time.Time
	Text    string
	begun   time.Time // the call
	resumed bool      // taken back from the worker's predecessor, whose lease ends with it
}

// mostTroubled is the job with the most refusals and attempts, and the most kills of
// its holders, among those whose story can still be told.
func mostTroubled(calls []*history.Call) int64 {
	const most = 12 // attempts
	score, attempts, holder := map[int64]int{}, map[int64]int{}, map[int64]string{}
	gone := map[string]time.Time{}
	for _, c := range calls {
		if c.Text == killed {
			gone[c.Worker] = c.Begin
		}
	}
	for _, c := range calls {
		for _, id := range c.Refused {
			score[id] += 2
		}
		for _, j := range c.Jobs {
			score[j.ID]++
			attempts[j.ID] = j.Attempt
			if at, ok := gone[holder[j.ID]]; ok && at.Before(c.Begin) {
				score[j.ID] += 4
			}
			holder[j.ID] = c.Client
		}
		for _, o := range c.Outcomes {
			delete(holder, o.ID)
		}
	}
	var worst int64
	for id, n := range score {
		if attempts[id] <= most && (n > score[worst] || n == score[worst] && id < worst) {
			worst = id
		}
	}
	return worst
}

// tell tells the story of a job.
func tell(calls []*history.Call, job int64) *Story {
	s := &Story{Job: job, attempts: attemptsOf(calls, job), ahead: aheadOf(calls)}
	ends := endsOf(calls)
	for _, c := range calls {
		s.add(c, fateOf(c, ends))
	}
	s.order()
	s.addFaults(calls)
	s.order()
	s.fold()
	return s
}

// attemptsOf are the attempts that the tokens of a job stand for.
func attemptsOf(calls []*history.Call, job int64) map[dibs.Token]int {
	attempts := map[dibs.Token]int{}
	for _, c := range calls {
		for i := range c.Jobs {
			if c.Jobs[i].ID == job {
				attempts[c.Jobs[i].Token] = c.Jobs[i].Attempt
			}
		}
	}
	return attempts
}

// held says which attempt of the job a token stands for.
func (s *Story) held(t dibs.Token) string {
	if n := s.attempts[t]; n > 0 {
		return fmt.Sprintf("attempt %d", n)
	}
	return "it"
}

// aheadOf is by how much the database's clock is ahead of the processes', as far as
// the claims can tell: one is made between the beginning of its call and the end.
func aheadOf(calls []*history.Call) time.Duration {
	var least, most time.Duration
	first := true
	for _, c := range calls {
		if c.Verb != history.Claim || c.Fate != history.Done || len(c.Jobs) == 0 {
			continue
		}
		after, before := c.Jobs[0].ClaimedAt.Sub(c.End), c.Jobs[0].ClaimedAt.Sub(c.Begin)
		if first {
			least, most, first = after, before, false
		}
		least, most = max(least, after), min(most, before)
	}
	if least <= 0 && 0 <= most {
		return 0
	}
	return (least + most) / 2
}

// order sorts the events. The answer to a finish may come after the claim that it
// allowed: then the finish lies directly before that claim.
func (s *Story) order() {
	for i := range s.Events {
		f := &s.Events[i]
		for _, c := range s.Events {
			if f.Sort == Accepted && c.Sort == Claimed && c.At.After(f.begun) && c.At.Before(f.At) {
				f.At = c.At
			}
		}
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int {
		if n := a.At.Compare(b.At); n != 0 || (a.Sort == Accepted) == (b.Sort == Accepted) {
			return n
		} else if a.Sort == Accepted {
			return -1
		}
		return 1
	})
}

// fold makes one event of those that repeat the one before.
func (s *Story) fold() {
	var folded []Event
	times := 1
	for i, e := range s.Events {
		if i > 0 && e.Client == s.Events[i-1].Client && e.Text == s.Events[i-1].Text {
			last := &folded[len(folded)-1]
			times++
			last.End, last.Text = e.End, fmt.Sprintf("%s, %d times", e.Text, times)
			continue
		}
		times = 1
		folded = append(folded, e)
	}
	s.Events = folded
}

// endsOf are the fates of the transactions.
func endsOf(calls []*history.Call) map[string]history.Fate {
	ends := map[string]history.Fate{}
	for _, c := range calls {
		switch c.Verb {
		case history.Commit:
			ends[c.Tx] = c.Fate
		case history.Rollback:
			ends[c.Tx] = history.Nothing
		}
	}
	return ends
}

// fateOf is what became of a call, with its transaction.
func fateOf(c *history.Call, ends map[string]history.Fate) history.Fate {
	if c.Tx == "" || c.Fate != history.Done {
		return c.Fate
	}
	return cmp.Or(ends[c.Tx], history.Nothing) // never committed
}

// add adds what a call did to the job.
func (s *Story) add(c *history.Call, fate history.Fate) {
	sort := func(done Sort) Sort {
		switch {
		case slices.Contains(c.Refused, s.Job):
			return Refused
		case fate != history.Done:
			return Unanswered
		}
		return done
	}
	event := func(sort Sort, at, end time.Time, text string) {
		if end.IsZero() {
			end = c.Begin
		}
		if sort == Accepted {
			at = end
		}
		s.Events = append(s.Events, Event{sort, c.Client, at, end, text + said(c, fate, sort), c.Begin, c.Verb == history.Resume})
	}
	for _, n := range c.New {
		if n.ID == s.Job && !n.Existing {
			s.Queue = n.Queue
			event(sort(Enqueued), c.Begin, c.End, "enqueues the job into the queue "+n.Queue)
		}
	}
	for _, j := range c.Jobs {
		if j.ID == s.Job {
			verb := "claims"
			if c.Verb == history.Resume {
				verb = "takes it back after its restart (resume), whatever is left of the old lease, and claims"
			}
			event(sort(Claimed), j.ClaimedAt.Add(-s.ahead), j.LeaseUntil.Add(-s.ahead), fmt.Sprintf("%s it: attempt %d, with a lease of %v", verb, j.Attempt, j.LeaseUntil.Sub(j.ClaimedAt).Round(time.Millisecond)))
		}
	}
	if i := slices.IndexFunc(c.Leases, func(l dibs.Lease) bool { return l.ID == s.Job }); i >= 0 {
		event(sort(Extended), c.Begin, c.Begin.Add(c.Lease), fmt.Sprintf("extends the lease of %s by %v", s.held(c.Leases[i].Token), c.Lease))
	}
	for _, o := range c.Outcomes {
		if o.ID == s.Job {
			event(sort(Accepted), c.Begin, c.End, fmt.Sprintf("finishes %s: %s", s.held(o.Token), o.Ending))
		}
	}
	if slices.Contains(c.Changed, s.Job) {
		event(sort(Asked), c.Begin, c.End, "asks for: "+string(c.Verb))
	}
}

// said says what came of a call, if that is not that it was done.
func said(c *history.Call, fate history.Fate, sort Sort) string {
	switch {
	case sort == Refused:
		return " (refused: the lease is lost)"
	case sort != Unanswered && c.Tx != "":
		return " (in a transaction, committed)"
	case sort != Unanswered:
		return ""
	case fate == history.Nothing && c.Tx != "":
		return " (in a transaction that was rolled back)"
	case fate == history.Nothing:
		return " (it failed and did nothing)"
	}
	return " (no answer came back: it may or may not have been done)"
}

// addFaults adds what was done to the clients that had the job, while they had it,
// and to the server.
func (s *Story) addFaults(calls []*history.Call) {
	if len(s.Events) == 0 {
		return
	}
	type span struct{ first, last time.Time }
	had := map[string]span{}
	all := span{s.Events[0].At, s.Events[0].End}
	for _, e := range s.Events {
		if e.End.After(all.last) {
			all.last = e.End
		}
		h, ok := had[e.Client]
		if !ok {
			h.first = e.At
		}
		if e.End.After(h.last) {
			h.last = e.End
		}
		had[e.Client] = h
	}
	had[""] = all // the server
	for _, c := range calls {
		h, ok := had[c.Worker]
		if c.Verb == history.Fault && ok && c.Text != snapshot && c.Begin.Before(h.last) && !c.End.Before(h.first) {
			s.Events = append(s.Events, Event{Struck, c.Worker, c.Begin, c.End, c.Text, c.Begin, false})
		}
	}
}
