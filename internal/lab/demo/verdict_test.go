package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// smallRun runs a few jobs with a single worker, and returns a function that collects the
// evidence. The first job with a second attempt counts as one that a killed worker held.
func smallRun(t *testing.T) func() Evidence {
	t.Helper()
	r := &stage{Config: config(t, 30), plan: NewPlan(30), began: time.Now()}
	t.Cleanup(r.killAll)
	for i := range r.plan.Jobs {
		r.plan.Jobs[i].New.Delay = 0
	}
	for _, step := range []func(context.Context) error{r.prepare, r.enqueue} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Work(ctx, r.DB, "w1", r.Dir) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if err := r.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.progress.unfinished() == 0 {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return func() Evidence {
		e, err := r.evidence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Calls {
			for _, job := range c.Jobs {
				if job.Attempt == 2 && e.Kills == nil {
					e.Kills = []Kill{{Worker: "w2", At: c.Begin, Held: []*dibs.RawJob{{ID: job.ID, Attempt: 1}}}}
				}
			}
		}
		return e
	}
}

// firstIn returns the first job that reached the state.
func (e Evidence) firstIn(state dibs.State) *dibs.RawJob {
	return e.Final[slices.IndexFunc(e.Final, func(j *dibs.RawJob) bool { return j.State == state })]
}

func TestTheVerdictFinds(t *testing.T) {
	t.Parallel()
	fresh := smallRun(t)
	honest := Judge(fresh())
	for _, p := range honest.Promises {
		if !p.Kept || p.Want != p.Got || p.Want == 0 && p.Checked == 0 {
			t.Errorf("an honest run gives %+v", p)
		}
	}
	if len(honest.Promises) != 4+len(mustNotHappen)+1 || len(honest.Recovery) != 1 || len(honest.Waits) != 3 {
		t.Errorf("an honest run gives %+v", honest)
	}
	for _, c := range []struct {
		name   string
		damage func(e *Evidence)
		broken string
		says   string
	}{
		{"a job that is missing", func(e *Evidence) { e.Final = e.Final[1:] }, "jobs enqueued", "though its enqueueing was acknowledged"},
		{"a duplicate that was not refused", func(e *Evidence) { e.Plan.Duplicates = append(e.Plan.Duplicates, dibs.NewJob{}) }, "duplicates refused by their unique key", ""},
		{"a job left running", func(e *Evidence) { e.firstIn(dibs.Completed).State = dibs.Running }, "completed", "is running"},
		{"a dead job that should complete", func(e *Evidence) { e.firstIn(dibs.Completed).State = dibs.Dead }, "completed", "is dead"},
		{"a completed job that should be dead", func(e *Evidence) { e.firstIn(dibs.Dead).State = dibs.Completed }, "dead, because they always fail", "is completed"},
		{"a job from nowhere", func(e *Evidence) {
			e.Final = append(e.Final, &dibs.RawJob{ID: 99, State: dibs.Completed})
		}, mustNotHappen[1], "job 99 (key \"\") exists, and nobody enqueued it"},
		{"a job that two workers hold at once", func(e *Evidence) {
			for _, c := range e.Calls {
				if len(c.Jobs) > 0 {
					c.Jobs[0].Attempt++
					e.Calls = append(e.Calls, &history.Call{Client: "w3", Number: 1, Verb: history.Claim, Queue: Queue, Want: 1, Begin: c.End, End: c.End, Fate: history.Done, Jobs: c.Jobs[:1:1]})
					return
				}
			}
		}, mustNotHappen[2], "job"},
		{"a killed worker's job that never ran", func(e *Evidence) {
			e.Kills[0].Held[0].Attempt = 7
		}, "jobs of killed w2, run elsewhere within 5s", "did not run again"},
		{"a killed worker's job that ran late", func(e *Evidence) {
			e.Kills[0].At = e.Kills[0].At.Add(-time.Minute)
		}, "jobs of killed w2, run elsewhere within 5s", "ran again after 1m0"},
		{"a finding of the database's check", func(e *Evidence) { e.Check = []string{"job 3: two rows"} }, mustNotHappen[4], "job 3: two rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fresh()
			c.damage(&e)
			v := Judge(e)
			i := slices.IndexFunc(v.Promises, func(p Promise) bool { return p.Text == c.broken })
			if v.Kept() || v.Promises[i].Kept || !strings.Contains(fmt.Sprint(v.Promises), c.says) {
				t.Errorf("want %q broken, with %q; the verdict: %+v", c.broken, c.says, v.Promises)
			}
		})
	}
}

func TestThePlanIsMixedAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	p, second := NewPlan(5000), NewPlan(5000)
	if fmt.Sprint(p.Limits) != fmt.Sprint(second.Limits) || len(p.Jobs) != 5000 {
		t.Fatalf("the plans differ or do not have 5000 jobs: %d", len(p.Jobs))
	}
	var dead, failing, later, unique, inGroups int
	priorities := map[int]int{}
	for i, j := range p.Jobs {
		if j.New.Payload != second.Jobs[i].New.Payload {
			t.Fatalf("job %d differs from plan to plan", i)
		}
		priorities[*j.New.Priority]++
		work := j.New.Payload.(Payload)
		switch {
		case j.End == dibs.Dead:
			dead++
		case work.Failures > 0:
			failing++
		}
		if j.New.Delay > 0 {
			later++
		}
		if j.New.UniqueKey != "" {
			unique++
		}
		if j.New.Group != "" {
			inGroups++
		}
	}
	if dead != 50 || failing != 200 || later != 200 || unique != 50 || len(p.Duplicates) != 50 {
		t.Errorf("dead %d, failing %d, later %d, unique %d, twice %d", dead, failing, later, unique, len(p.Duplicates))
	}
	if len(priorities) != 3 || inGroups < 2000 || len(p.Limits) != 20 {
		t.Errorf("priorities %v, in groups %d, limits %d", priorities, inGroups, len(p.Limits))
	}
}
