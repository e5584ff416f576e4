package demo

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Evidence is everything that the verdict is based on.
type Evidence struct {
	history.Evidence
	Plan  Plan
	Kills []Kill
}

// Kill is one worker that was killed, with the jobs that it held according to the database.
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
	// Checked is how many cases were examined, if Got counts those that broke the promise.
	Checked int  `json:"checked,omitempty"`
	Kept    bool `json:"kept"`
	// Broken describes the first few cases that broke the promise.
	Broken []string `json:"broken,omitempty"`
}

// Verdict says which promises were kept.
type Verdict struct {
	Promises []Promise
	Recovery []time.Duration // times from a kill to the next attempt of each job that the worker held, ascending
	Waits    []Wait          // average waits by priority, small first; no promise covers them
}

// Wait says how long jobs of one priority waited for their first attempt.
type Wait struct {
	Priority int
	Average  time.Duration
}

// Kept reports whether all promises were kept.
func (v Verdict) Kept() bool {
	return !slices.ContainsFunc(v.Promises, func(p Promise) bool { return !p.Kept })
}

// RecoveryTimes returns the median and the longest time of Recovery, or 0 if it is empty.
func (v Verdict) RecoveryTimes() (p50, longest time.Duration) {
	n := len(v.Recovery)
	if n == 0 {
		return 0, 0
	}
	return v.Recovery[(n-1)/2], v.Recovery[n-1]
}

// mustNotHappen says what breaks each promise, by its number in docs/guarantees.md. Promise
// 8 is left out, since the demo's transactions write no effects.
var mustNotHappen = map[int]string{
	1: "jobs lost, doubled or from nowhere",
	2: "two workers on one job at once",
	3: "outcomes accepted from a worker that lost the job",
	4: "jobs left behind, early, or run after their end",
	5: "attempts uncounted, or counted without a worker",
	6: "groups over their limit or out of order",
	7: "jobs overtaken by less urgent ones",
	9: "unique keys that two jobs held at once",
}

// Judge makes the verdict: whether all jobs ended as planned, and what package history finds.
func Judge(e Evidence) Verdict {
	v := Verdict{Promises: []Promise{
		e.enqueued(),
		e.refused(),
		e.reached(dibs.Completed, "completed"),
		e.reached(dibs.Dead, "dead, because they always fail"),
	}}
	for _, found := range history.Judge(e.Evidence) {
		if text := mustNotHappen[found.Number]; text != "" {
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

// countPromise is a promise that the count got equals want, and that nothing is missing.
func countPromise(text string, want, got int, missing []string) Promise {
	return Promise{
		Text: text, Want: want, Got: got,
		Kept: want == got && len(missing) == 0, Broken: missing[:min(len(missing), 3)],
	}
}

func (e Evidence) enqueued() Promise {
	return countPromise("jobs enqueued", len(e.Plan.Jobs), len(e.Final), nil)
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
	return countPromise("duplicates refused by their unique key", len(e.Plan.Duplicates), existing, nil)
}

// reached is the promise that all jobs reach the state if the plan says so.
func (e Evidence) reached(state dibs.State, text string) Promise {
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
	return countPromise(text, want, got, missing)
}

// recovered is the promise that the jobs of a killed worker ran elsewhere in time. A job that
// ended with the worker's attempt need not run again: its outcome was under way when the
// worker was killed, or the attempt was its last.
func (e Evidence) recovered(k Kill) (Promise, []time.Duration) {
	const limit = Lease + 2*time.Second
	var times []time.Duration
	var late []string
	ended := map[int64]int{}
	for _, job := range e.Final {
		if job.State.Final() {
			ended[job.ID] = job.Attempt
		}
	}
	ranAgain, want := k.ranAgainAfter(e.Calls), 0
	for _, job := range k.Held {
		if ended[job.ID] == job.Attempt {
			continue
		}
		want++
		switch took, ok := ranAgain[job.ID]; {
		case !ok:
			late = append(late, fmt.Sprintf("job %d did not run again", job.ID))
		case took > limit:
			late = append(late, fmt.Sprintf("job %d ran again after %v, want at most %v", job.ID, took.Round(time.Millisecond), limit))
			fallthrough
		default:
			times = append(times, took)
		}
	}
	text := fmt.Sprintf("jobs of killed %s, run elsewhere within %v", k.Worker, limit)
	return countPromise(text, want, len(times), late), times
}

// ranAgainAfter returns how long after the kill each job of the worker was claimed again.
func (k Kill) ranAgainAfter(calls []*history.Call) map[int64]time.Duration {
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

// waits averages the time from run_at to the first claim, for each priority.
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
