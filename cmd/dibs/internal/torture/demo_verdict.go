package torture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// kill is one worker that was killed, with the jobs that it held according to the database.
type kill struct {
	worker string
	at     time.Time
	held   []*dibs.RawJob
}

// Demo is what a demo's verdict says beside the promises.
type Demo struct {
	Jobs, Attempts int
	Ends           []Row           // whether all jobs ended as the load planned it
	Recovered      []Row           // whether the jobs of each killed worker ran elsewhere in time
	Recovery       []time.Duration // times from a kill to the next attempt of each job that the worker held, ascending
	Waits          []Wait          // average waits by priority, small first; no promise covers them
}

// Wait says how long jobs of one priority waited for their first attempt.
type Wait struct {
	Priority int
	Average  time.Duration
}

// RecoveryTimes returns the median and the longest time of Recovery, or 0 if it is empty.
func (d *Demo) RecoveryTimes() (p50, longest time.Duration) {
	n := len(d.Recovery)
	if n == 0 {
		return 0, 0
	}
	return d.Recovery[(n-1)/2], d.Recovery[n-1]
}

// judge judges the promises, and whether all jobs ended as the load planned it.
func (d *demo) judge(ctx context.Context) (*Result, error) {
	e, err := d.keepEvidence(ctx)
	if err != nil {
		return nil, err
	}
	return d.verdict(e), nil
}

func (d *demo) verdict(e history.Evidence) *Result {
	result := judgeEvidence(d.About, d.Dir, e)
	found := &Demo{Jobs: d.Jobs, Waits: waitsOf(e), Ends: []Row{
		countRow("jobs enqueued", len(d.jobs), len(e.Final), nil),
		d.refused(e),
		d.reached(e, dibs.Completed, "completed"),
		d.reached(e, dibs.Dead, "dead, because they always fail"),
	}}
	for _, job := range e.Final {
		found.Attempts += job.Attempt
	}
	for _, k := range d.kills {
		row, times := k.recovered(e)
		found.Recovered, found.Recovery = append(found.Recovered, row), append(found.Recovery, times...)
	}
	slices.Sort(found.Recovery)
	result.Demo = found
	return result
}

// countRow says that the count got must equal want, and that nothing may be missing.
func countRow(text string, want, got int, missing []string) Row {
	return Row{
		Text: text, Want: want, Got: got,
		Kept: want == got && len(missing) == 0, Broken: missing[:min(len(missing), 3)],
	}
}

func (d *demo) refused(e history.Evidence) Row {
	existing := 0
	for _, c := range e.Calls {
		for _, n := range c.New {
			if n.Existing {
				existing++
			}
		}
	}
	return countRow("duplicates refused by their unique key", len(d.duplicates), existing, nil)
}

// reached says how many of the jobs that the load planned for a state have reached it.
func (d *demo) reached(e history.Evidence, state dibs.State, text string) Row {
	var want, got int
	var missing []string
	became := map[string]*dibs.RawJob{}
	for _, job := range e.Final {
		became[history.Key(job.Payload)] = job
	}
	for _, planned := range d.jobs {
		if planned.end != state {
			continue
		}
		want++
		key := planned.job.Payload.(task).Key
		switch job := became[key]; {
		case job == nil:
			missing = append(missing, fmt.Sprintf("the job planned as number %s is not in the database", key))
		case job.State != state:
			missing = append(missing, fmt.Sprintf("job %d is %s", job.ID, job.State))
		default:
			got++
		}
	}
	return countRow(text, want, got, missing)
}

// recovered says that the jobs of a killed worker ran elsewhere in time. A job that
// ended with the worker's attempt need not run again: its outcome was under way when the
// worker was killed, or the attempt was its last.
func (k kill) recovered(e history.Evidence) (Row, []time.Duration) {
	const limit = DemoLease + 2*time.Second
	var times []time.Duration
	var late []string
	ended := map[int64]int{}
	for _, job := range e.Final {
		if job.State.Final() {
			ended[job.ID] = job.Attempt
		}
	}
	ranAgain, want := k.ranAgainAfter(e.Calls), 0
	for _, job := range k.held {
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
	text := fmt.Sprintf("jobs of killed %s, run elsewhere within %v", k.worker, limit)
	return countRow(text, want, len(times), late), times
}

// ranAgainAfter returns how long after the kill each job of the worker was claimed again.
func (k kill) ranAgainAfter(calls []*history.Call) map[int64]time.Duration {
	held, times := map[int64]int{}, map[int64]time.Duration{}
	for _, job := range k.held {
		held[job.ID] = job.Attempt
	}
	for _, c := range calls {
		for _, job := range c.Jobs {
			if attempt, ok := held[job.ID]; ok && job.Attempt == attempt+1 {
				times[job.ID] = c.End.Sub(k.at)
			}
		}
	}
	return times
}

// waitsOf averages the time from run_at to the first claim, for each priority.
func waitsOf(e history.Evidence) []Wait {
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
