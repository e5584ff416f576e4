package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Story tells what happened to one job.
type Story struct {
	Job    int64
	Queue  string
	Events []Event // sorted by At

	attempts map[dibs.Token]int // the job's attempts, by their tokens
	ahead    time.Duration      // how far the database's clock is ahead of the processes' clock
}

// Sort says what happened in an event.
type Sort string

const (
	Enqueued   Sort = "enqueued"
	Claimed    Sort = "claimed"    // the lease runs from At to End, unless it is extended
	Extended   Sort = "extended"   // the new lease runs from At to End, unless it is extended
	Stepped    Sort = "stepped"    // a step was written, or the steps were asked for
	Accepted   Sort = "accepted"   // an outcome was written
	Refused    Sort = "refused"    // an outcome or an extension was refused
	Unanswered Sort = "unanswered" // a call had no answer, or its transaction may not be committed
	Asked      Sort = "operator"   // an operator changed the job
	Struck     Sort = "fault"      // a fault hit a client that held the job, or the server
)

// Event is something that happened, as one client saw it. At is the time of the claim by the
// database's clock, the answer to an accepted outcome, or the beginning of any other call.
type Event struct {
	Sort      Sort
	Client    string
	At, End   time.Time
	Text      string
	callBegan time.Time
	resumed   bool // a resume took the job over from the worker's earlier process and ended its lease
}

// mostTroubled returns the job with the most refusals, attempts and killed holders. It leaves
// out jobs with too many attempts for a readable story.
func mostTroubled(calls []*history.Call) int64 {
	const maxAttempts = 12
	score, attempts, holder := map[int64]int{}, map[int64]int{}, map[int64]string{}
	killedAt := map[string]time.Time{}
	for _, c := range calls {
		if c.Text == lab.Killed {
			killedAt[c.Worker] = c.Begin
		}
	}
	for _, c := range calls {
		for _, id := range c.Refused {
			score[id] += 2
		}
		for _, j := range c.Jobs {
			score[j.ID]++
			attempts[j.ID] = j.Attempt
			if at, ok := killedAt[holder[j.ID]]; ok && at.Before(c.Begin) {
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
		if attempts[id] <= maxAttempts && (n > score[worst] || n == score[worst] && id < worst) {
			worst = id
		}
	}
	return worst
}

// newStory makes the story of a job from the records.
func newStory(calls []*history.Call, job int64) *Story {
	s := &Story{Job: job, attempts: attemptsOf(calls, job), ahead: history.Ahead(calls)}
	ends := endsOf(calls)
	for _, c := range calls {
		s.add(c, fateOf(c, ends))
	}
	s.sortEvents()
	s.addFaults(calls)
	s.sortEvents()
	s.foldRepeats()
	return s
}

// attemptsOf returns the job's attempts by their tokens.
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

// attemptText names the attempt that a token stands for.
func (s *Story) attemptText(t dibs.Token) string {
	if n := s.attempts[t]; n > 0 {
		return fmt.Sprintf("attempt %d", n)
	}
	return "it"
}

// sortEvents sorts the events. If a finish makes room for a claim that is answered first, the
// finish is put directly before that claim.
func (s *Story) sortEvents() {
	for i := range s.Events {
		f := &s.Events[i]
		for _, c := range s.Events {
			if f.Sort == Accepted && c.Sort == Claimed && c.At.After(f.callBegan) && c.At.Before(f.At) {
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

// foldRepeats joins consecutive events with the same client and text.
func (s *Story) foldRepeats() {
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

// endsOf returns the fates of the transactions, by name.
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

// fateOf returns the fate of a call, which depends on its transaction.
func fateOf(c *history.Call, ends map[string]history.Fate) history.Fate {
	if c.Tx == "" || c.Fate != history.Done {
		return c.Fate
	}
	return cmp.Or(ends[c.Tx], history.Nothing) // without an end, the transaction was never committed
}

// add adds the events of a call that concern the job.
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
		s.Events = append(s.Events, Event{sort, c.Client, at, end, text + answerText(c, fate, sort), c.Begin, c.Verb == history.Resume})
	}
	for _, n := range c.New {
		if n.ID == s.Job && !n.Existing {
			s.Queue = n.Queue
			event(sort(Enqueued), c.Begin, c.End, "enqueues the job into the queue "+n.Queue+afterText(c, &n))
		}
	}
	for _, j := range c.Jobs {
		if j.ID == s.Job {
			verb := "claims"
			if c.Verb == history.Resume {
				verb = "resumes it after a restart, which ends the old lease, and claims"
			}
			event(sort(Claimed), j.ClaimedAt.Add(-s.ahead), j.LeaseUntil.Add(-s.ahead), fmt.Sprintf("%s it: attempt %d, with a lease of %v", verb, j.Attempt, j.LeaseUntil.Sub(j.ClaimedAt).Round(time.Millisecond)))
		}
	}
	if i := slices.IndexFunc(c.Leases, func(l dibs.Lease) bool { return l.ID == s.Job }); i >= 0 && c.Verb == history.Extend {
		event(sort(Extended), c.Begin, c.Begin.Add(c.Lease), fmt.Sprintf("extends the lease of %s by %v", s.attemptText(c.Leases[i].Token), c.Lease))
	}
	if (c.Verb == history.PutStep || c.Verb == history.Steps) && c.Leases[0].ID == s.Job {
		event(sort(Stepped), c.Begin, c.End, stepsText(c, s.attemptText(c.Leases[0].Token)))
	}
	for _, o := range c.Outcomes {
		if o.ID == s.Job {
			event(sort(Accepted), c.Begin, c.End, fmt.Sprintf("finishes %s: %s", s.attemptText(o.Token), o.Ending))
		}
	}
	if slices.Contains(c.Changed, s.Job) {
		event(sort(Asked), c.Begin, c.End, "asks for: "+string(c.Verb))
	}
}

// afterText says which jobs of the call, and which others, a new job comes after.
func afterText(c *history.Call, n *history.New) string {
	var all []string
	for _, d := range n.After {
		if d.ID != 0 {
			all = append(all, fmt.Sprint(d.ID))
			continue
		}
		for _, other := range c.New {
			if other.Key == n.Key {
				break // it comes after earlier ones alone
			}
			if other.Ref == d.Ref {
				all = append(all, fmt.Sprint(other.ID))
			}
		}
	}
	switch {
	case len(all) == 0:
		return ""
	case len(all) > 5:
		return fmt.Sprintf(", after %s and %d more", strings.Join(all[:5], ", "), len(all)-5)
	}
	return ", after " + strings.Join(all, ", ")
}

func stepsText(c *history.Call, attempt string) string {
	if c.Verb == history.PutStep {
		return fmt.Sprintf("writes the step %q of %s", c.Steps[0].Name, attempt)
	}
	return fmt.Sprintf("asks for the steps of %s: %d", attempt, len(c.Steps))
}

// answerText describes the answer to a call; it is "" for a plain success.
func answerText(c *history.Call, fate history.Fate, sort Sort) string {
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
		return " (it failed and changed nothing)"
	}
	return " (no answer: it may or may not have taken effect)"
}

// addFaults adds the faults that hit the server, and those that hit clients while they held
// the job.
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
