package demo

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// Evidence is everything that the verdict is made from.
type Evidence struct {
	history.Evidence
	Plan  Plan
	Kills []Kill
}

// Kill is one worker that was killed, and what it held by the database's account.
type Kill struct {
	Worker string
	At     time.Time
	Held   []*dibs.RawJob
}

// Promise is one line of the verdict.
type Promise struct {
	Text string `json:"promise"`
	Want int    `json:"want"`
	Got  int    `json:"got"`
	// Checked is how many cases were looked at, where Got of them should be none.
	Checked int  `json:"checked,omitempty"`
	Kept    bool `json:"kept"`
	// Broken names the first few cases, for whoever has to find out why.
	Broken []string `json:"broken,omitempty"`
}

// Verdict says which promises were kept.
type Verdict struct {
	Promises []Promise
	Recovery []time.Duration // from each kill to the next attempt of each job held, ascending
	Waits    []Wait          // by priority, small first; they are no promise
}

// Wait is how long jobs of one priority waited for their first attempt.
type Wait struct {
	Priority int
	Average  time.Duration
}

// Kept reports whether all were.
func (v Verdict) Kept() bool {
	return !slices.ContainsFunc(v.Promises, func(p Promise) bool { return !p.Kept })
}

// RecoveryTimes are the median and the longest time of Recovery, or 0 without any.
func (v Verdict) RecoveryTimes() (p50, longest time.Duration) {
	n := len(v.Recovery)
	if n == 0 {
		return 0, 0
	}
	return v.Recovery[(n-1)/2], v.Recovery[n-1]
}

// never says what must not be, by the number of the promise in docs/guarantees.md. The
// demo has no effects of its own (8).
var never = map[int]string{
	1: "jobs lost, doubled or from nowhere",
	2: "two workers on one job at once",
	3: "outcomes accepted from a worker that lost the job",
	4: "jobs left behind, early, or run after their end",
	5: "attempts uncounted, or counted without a worker",
	6: "groups over their limit or out of order",
	7: "jobs overtaken by less urgent ones",
	9: "unique keys that two jobs held at once",
}

// Judge makes the verdict: whether all became as planned, and what package history finds.
func Judge(e Evidence) Verdict {
	v := Verdict{Promises: []Promise{
		e.enqueued(),
		e.refused(),
		e.ended(dibs.Completed, "completed"),
		e.ended(dibs.Dead, "dead, because they always fail"),
	}}
	for _, found := range history.Judge(e.Evidence) {
		if text := never[found.Number]; text != "" {
			p := Promise{Text: text, Got: len(found.Broken), Checked: found.Checked, Kept: len(found.Broken) == 0}
			for _, b := range found.Broken[:min(len(found.Broken), 3)] {
				p.Broken = append(p.Broken, b.Text)
			}
			v.Promises = append(v.Promises, p)
		}
	}
	for _, k := range e.Kills {
		p, times := e.recovered(k)
		v.Promises = append(v.Promises, p)
		v.Recovery = append(v.Recovery, times...)
	}
	slices.Sort(v.Recovery)
	v.Waits = e.waits()
	return v
}

// all promises a number of cases.
func all(text string, want, got int, missing []string) Promise {
	return Promise{
		Text: text, Want: want, Got: got,
		Kept: want == got && len(missing) == 0, Broken: missing[:min(len(missing), 3)],
	}
}

func (e Evidence) enqueued() Promise {
	return all("jobs enqueued", len(e.Plan.Jobs), len(e.Final), nil)
}

func (e Evidence) refused() Promise {
	existing := 0
	for _, c := range e.Calls {
		for _, n := range c.New {
			if n.Existing {
				existing++
			}
		}
	}
	return all("duplicates refused by their unique key", len(e.Plan.Twice), existing, nil)
}

// ended counts the planned jobs that had to reach a state and did.
func (e Evidence) ended(state dibs.State, text string) Promise {
	var want, got int
	var missing []string
	became := map[string]*dibs.RawJob{}
	for _, job := range e.Final {
		became[history.Key(job.Payload)] = job
	}
	for _, planned := range e.Plan.Jobs {
		if planned.End != state {
			continue
		}
		want++
		key := planned.New.Payload.(Payload).Key
		switch job := became[key]; {
		case job == nil:
			missing = append(missing, fmt.Sprintf("the job planned as number %s is not in the database", key))
		case job.State != state:
			missing = append(missing, fmt.Sprintf("job %d is %s", job.ID, job.State))
		default:
			got++
		}
	}
	return all(text, want, got, missing)
}

// recovered checks that the jobs of a killed worker ran elsewhere, in time. What ended with
// the attempt that it held did not have to: its outcome was on its way when the
// worker was killed, or the attempt was the last.
func (e Evidence) recovered(k Kill) (Promise, []time.Duration) {
	const most = Lease + 2*time.Second
	var times []time.Duration
	var late []string
	ended := map[int64]int{}
	for _, job := range e.Final {
		if job.State.Final() {
			ended[job.ID] = job.Attempt
		}
	}
	again, want := k.again(e.Calls), 0
	for _, job := range k.Held {
		if ended[job.ID] == job.Attempt {
			continue
		}
		want++
		switch took, ok := again[job.ID]; {
		case !ok:
			late = append(late, fmt.Sprintf("job %d did not run again", job.ID))
		case took > most:
			late = append(late, fmt.Sprintf("job %d ran again after %v, want at most %v", job.ID, took.Round(time.Millisecond), most))
			fallthrough
		default:
			times = append(times, took)
		}
	}
	text := fmt.Sprintf("jobs of killed %s, run elsewhere within %v", k.Worker, most)
	return all(text, want, len(times), late), times
}

// again finds how long after the kill each job that the worker held was claimed again.
func (k Kill) again(calls []*history.Call) map[int64]time.Duration {
	held, times := map[int64]int{}, map[int64]time.Duration{}
	for _, job := range k.Held {
		held[job.ID] = job.Attempt
	}
	for _, c := range calls {
		for _, job := range c.Jobs {
			if attempt, ok := held[job.ID]; ok && job.Attempt == attempt+1 {
				times[job.ID] = c.End.Sub(k.At)
			}
		}
	}
	return times
}

// waits averages the time from run_at to the first claim.
func (e Evidence) waits() []Wait {
	sum, n := map[int]time.Duration{}, map[int]int{}
	for _, c := range e.Calls {
		for _, job := range c.Jobs {
			if job.Attempt == 1 {
				sum[job.Priority] += job.ClaimedAt.Sub(job.RunAt)
				n[job.Priority]++
			}
		}
	}
	var waits []Wait
	for _, p := range slices.Sorted(maps.Keys(n)) {
		waits = append(waits, Wait{Priority: p, Average: sum[p] / time.Duration(n[p])})
	}
	return waits
}
