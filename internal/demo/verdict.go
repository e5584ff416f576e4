package demo

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// Evidence is everything that the verdict is made from.
type Evidence struct {
	Plan    Plan
	IDs     []int64                // of Plan.Jobs, as Enqueue returned them
	Refused int                    // of Plan.Twice, as Enqueue returned them
	History []*Attempt             // what the workers wrote down
	Final   map[int64]*dibs.RawJob // every completed, dead or cancelled job in the database
	Left    []*dibs.RawJob         // every other job in the database
	Kills   []Kill
	Check   []string // what Database.Check found
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
	Kept bool   `json:"kept"`
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

// judge is the evidence with what several promises need of it.
type judge struct {
	Evidence
	byJob map[int64][]*Attempt // in the order they began
	held  map[dibs.Lease]bool  // claims whose worker was killed before it could finish them
	// skew turns the database's clock into that of the workers: the smallest time
	// from a claim, by the one, to its handler's beginning, by the other. It is too
	// large by the fastest such step of the run, and therefore accuses nobody wrongly:
	// every attempt begins at least that long after its claim.
	skew time.Duration
}

// Judge makes the verdict.
func Judge(e Evidence) Verdict {
	e.Kills = slices.Clone(e.Kills)
	j := judge{Evidence: e, byJob: map[int64][]*Attempt{}, held: map[dibs.Lease]bool{}}
	for i, a := range e.History {
		if d := a.Start.Sub(a.ClaimedAt); i == 0 || d < j.skew {
			j.skew = d
		}
		j.byJob[a.Job] = append(j.byJob[a.Job], a)
	}
	for _, attempts := range j.byJob {
		slices.SortStableFunc(attempts, func(a, b *Attempt) int { return a.Start.Compare(b.Start) })
	}
	for i, k := range e.Kills {
		j.Kills[i].Held = j.cutShort(k)
		for _, job := range j.Kills[i].Held {
			j.held[job.Lease()] = true
		}
	}
	v := Verdict{Promises: []Promise{
		j.enqueued(),
		j.refused(),
		j.ended(dibs.Completed, "completed"),
		j.ended(dibs.Dead, "dead, because they always fail"),
		none("jobs left behind", j.left()),
		none("jobs lost", j.lost()),
		none("two workers on one job at once", j.overlaps()),
		none("groups over their limit", j.groups()),
		none("jobs started before their time", j.early()),
		none("jobs run again after they had completed", j.again()),
		j.accounted(),
	}}
	for _, k := range j.Kills {
		p, times := j.recovered(k)
		v.Promises = append(v.Promises, p)
		v.Recovery = append(v.Recovery, times...)
	}
	slices.Sort(v.Recovery)
	v.Waits = j.waits()
	v.Promises = append(v.Promises, none("faults that the database check found", e.Check))
	return v
}

// cutShort leaves out the jobs whose outcome was on its way when the worker was
// killed, and was written by the database's server all the same.
func (j *judge) cutShort(k Kill) []*dibs.RawJob {
	return slices.DeleteFunc(slices.Clone(k.Held), func(job *dibs.RawJob) bool {
		f := j.Final[job.ID]
		return f != nil && f.State == dibs.Completed && f.Attempt == job.Attempt && j.completedBy(f)
	})
}

// completedBy reports whether a worker wrote down that the job's last attempt
// completed it.
func (j *judge) completedBy(job *dibs.RawJob) bool {
	return slices.ContainsFunc(j.byJob[job.ID], func(a *Attempt) bool {
		return a.Attempt == job.Attempt && a.Completed
	})
}

// none promises that there is no such case.
func none(text string, cases []string) Promise {
	return Promise{Text: text, Got: len(cases), Kept: len(cases) == 0, Broken: first(cases)}
}

// all promises a number of cases.
func all(text string, want, got int, missing []string) Promise {
	return Promise{
		Text: text, Want: want, Got: got,
		Kept: want == got && len(missing) == 0, Broken: first(missing),
	}
}

func first(cases []string) []string { return cases[:min(len(cases), 3)] }

func (j *judge) enqueued() Promise {
	planned := map[int64]bool{}
	for _, id := range j.IDs {
		planned[id] = true
	}
	var extra []string
	for id := range j.Final {
		if !planned[id] {
			extra = append(extra, fmt.Sprintf("job %d was not enqueued by anybody", id))
		}
	}
	return all("jobs enqueued", len(j.Plan.Jobs), len(planned), extra)
}

func (j *judge) refused() Promise {
	return all("duplicates refused by their unique key", len(j.Plan.Twice), j.Refused, nil)
}

// ended counts the planned jobs that had to reach a state and did.
func (j *judge) ended(state dibs.State, text string) Promise {
	var want, got int
	var missing []string
	for i, id := range j.IDs {
		if j.Plan.Jobs[i].End != state {
			continue
		}
		want++
		switch job := j.Final[id]; {
		case job == nil || job.State != state:
			missing = append(missing, fmt.Sprintf("job %d is %s", id, j.stateOf(id)))
		case state == dibs.Completed && !j.completedBy(job):
			missing = append(missing, fmt.Sprintf("job %d is completed, but no worker completed it", id))
		default:
			got++
		}
	}
	return all(text, want, got, missing)
}

func (j *judge) stateOf(id int64) string {
	if job := j.Final[id]; job != nil {
		return string(job.State)
	}
	for _, job := range j.Left {
		if job.ID == id {
			return string(job.State)
		}
	}
	return "not in the database"
}

func (j *judge) left() (cases []string) {
	for _, job := range j.Left {
		cases = append(cases, fmt.Sprintf("job %d is %s after attempt %d", job.ID, job.State, job.Attempt))
	}
	return cases
}

func (j *judge) lost() (cases []string) {
	there := map[int64]bool{}
	for _, job := range j.Left {
		there[job.ID] = true
	}
	for _, id := range j.IDs {
		if j.Final[id] == nil && !there[id] {
			cases = append(cases, fmt.Sprintf("job %d is nowhere in the database", id))
		}
	}
	return cases
}

// again finds attempts of a job that had completed before. A handler that returned
// too late, or in the moment its worker was killed, does not count: its outcome was not
// written.
func (j *judge) again() (cases []string) {
	for id, attempts := range j.byJob {
		var done *Attempt
		for _, a := range attempts {
			if done != nil {
				cases = append(cases, fmt.Sprintf("job %d: attempt %d (%s) began after attempt %d (%s) had completed it",
					id, a.Attempt, a.Worker, done.Attempt, done.Worker))
			}
			if a.Completed && a.Written {
				done = a
			}
		}
	}
	return cases
}

// accounted compares the attempts that the database counted with those that the
// workers wrote down. Only a killed worker may have claimed a job without running it.
func (j *judge) accounted() Promise {
	var want, got int
	var missing []string
	for id, job := range j.Final {
		ran := map[int]bool{}
		for _, a := range j.byJob[id] {
			ran[a.Attempt] = true
		}
		for _, k := range j.Kills {
			for _, h := range k.Held {
				if h.ID == id {
					ran[h.Attempt] = true
				}
			}
		}
		want += job.Attempt
		for n := 1; n <= job.Attempt; n++ {
			if ran[n] {
				got++
			} else {
				missing = append(missing, fmt.Sprintf("job %d: nobody ran attempt %d", id, n))
			}
		}
		if len(ran) > job.Attempt {
			missing = append(missing, fmt.Sprintf("job %d: ran %d attempts, the database counted %d", id, len(ran), job.Attempt))
		}
	}
	return all("attempts counted, all accounted for", want, got, missing)
}

// recovered checks that the jobs of a killed worker ran elsewhere, in time.
func (j *judge) recovered(k Kill) (Promise, []time.Duration) {
	const most = Lease + 2*time.Second
	var times []time.Duration
	var late []string
	for _, job := range k.Held {
		took, ok := j.next(job, k.At)
		switch {
		case !ok:
			late = append(late, fmt.Sprintf("job %d did not run again", job.ID))
		case took > most:
			late = append(late, fmt.Sprintf("job %d ran again after %v, want at most %v", job.ID, took.Round(time.Millisecond), most))
		}
		if ok {
			times = append(times, took)
		}
	}
	text := fmt.Sprintf("jobs of killed %s, run elsewhere within %v", k.Worker, most)
	return all(text, len(k.Held), len(times), late), times
}

// next finds when a job began again after its worker was killed, or died because
// that attempt was its last.
func (j *judge) next(job *dibs.RawJob, killed time.Time) (time.Duration, bool) {
	for _, a := range j.byJob[job.ID] {
		if a.Attempt > job.Attempt {
			return a.Start.Sub(killed), true
		}
	}
	if f := j.Final[job.ID]; f != nil && f.State == dibs.Dead && f.Attempt == job.Attempt {
		return f.FinishedAt.Add(j.skew).Sub(killed), true
	}
	return 0, false
}

// waits averages the time from run_at to the first claim.
func (j *judge) waits() []Wait {
	sum, n := map[int]time.Duration{}, map[int]int{}
	for i, id := range j.IDs {
		p := j.Plan.Jobs[i].New.Priority
		if attempts := j.byJob[id]; p != nil && len(attempts) > 0 {
			sum[*p] += attempts[0].ClaimedAt.Sub(attempts[0].RunAt)
			n[*p]++
		}
	}
	var waits []Wait
	for _, p := range slices.Sorted(maps.Keys(n)) {
		waits = append(waits, Wait{Priority: p, Average: sum[p] / time.Duration(n[p])})
	}
	return waits
}

func lease(a *Attempt) dibs.Lease { return dibs.Lease{ID: a.Job, Token: a.Token} }
