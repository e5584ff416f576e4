package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// damaged is a demo and its evidence, which a test may damage.
type damaged struct {
	*demo
	history.Evidence
}

// smallRun runs a few jobs with a single worker, and returns a function that collects the
// evidence. The first job with a second attempt counts as one that a killed worker held.
func smallRun(t *testing.T) func() damaged {
	t.Helper()
	r := &run{Config: demoConfig(t, 30), startGroups: map[string]map[string]int{}}
	r.Began = time.Now()
	var err error
	if r.operator, err = history.OpenIn(r.Dir, "operator"); err != nil {
		t.Fatal(err)
	}
	r.admin = history.Wrap(r.DB, r.operator)
	d := &demo{run: r, load: newLoad(r.Jobs)}
	for i := range d.jobs {
		d.jobs[i].job.Delay = 0
	}
	if err := runSteps(t.Context(), d.prepare, d.enqueue); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Part{Demo: true, Client: "w1", Of: 1, Dir: r.Dir}.run(ctx, r.DB, r.URL) }()
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		p := Progress{Jobs: r.Jobs}
		if p.Queues, err = r.DB.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.Done() == 1 {
			break
		}
	}
	stop()
	if err := errors.Join(<-ended, r.operator.Close()); err != nil {
		t.Fatal(err)
	}
	return func() damaged {
		e, err := r.evidence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fresh := *d
		for _, c := range e.Calls {
			for _, job := range c.Jobs {
				if job.Attempt == 2 && fresh.kills == nil {
					fresh.kills = []kill{{worker: "w2", at: c.Begin, held: []*dibs.RawJob{{ID: job.ID, Attempt: 1}}}}
				}
			}
		}
		return damaged{&fresh, e}
	}
}

// firstIn returns the first job that reached the state.
func (e damaged) firstIn(state dibs.State) *dibs.RawJob {
	return e.Final[slices.IndexFunc(e.Final, func(j *dibs.RawJob) bool { return j.State == state })]
}

func TestTheVerdictFinds(t *testing.T) {
	t.Parallel()
	fresh := smallRun(t)
	sound := fresh()
	honest := sound.verdict(sound.Evidence)
	for _, p := range honest.Rows() {
		if !p.Kept || p.Want != p.Got || p.Want == 0 && p.Checked == 0 {
			t.Errorf("an honest run gives %+v", p)
		}
	}
	if len(honest.Rows()) != 4+len(mustNotHappen)+1 || len(honest.Demo.Recovery) != 1 || len(honest.Demo.Waits) != 3 {
		t.Errorf("an honest run gives %+v", honest.Rows())
	}
	for _, c := range []struct {
		name   string
		damage func(e *damaged)
		broken string
		says   string
	}{
		{"a job that is missing", func(e *damaged) { e.Final = e.Final[1:] }, "jobs enqueued", "though its enqueueing was acknowledged"},
		{"a duplicate that was not refused", func(e *damaged) { e.duplicates = append(slices.Clip(e.duplicates), dibs.NewJob{}) }, "duplicates refused by their unique key", ""},
		{"a job left running", func(e *damaged) { e.firstIn(dibs.Completed).State = dibs.Running }, "completed", "is running"},
		{"a dead job that should complete", func(e *damaged) { e.firstIn(dibs.Completed).State = dibs.Dead }, "completed", "is dead"},
		{"a completed job that should be dead", func(e *damaged) { e.firstIn(dibs.Dead).State = dibs.Completed }, "dead, because they always fail", "is completed"},
		{"a job from nowhere", func(e *damaged) {
			e.Final = append(e.Final, &dibs.RawJob{ID: 99, State: dibs.Completed})
		}, mustNotHappen[1], "job 99 (key \"\") exists, and nobody enqueued it"},
		{"a job that two workers hold at once", func(e *damaged) {
			for _, c := range e.Calls {
				if len(c.Jobs) > 0 {
					c.Jobs[0].Attempt++
					e.Calls = append(e.Calls, &history.Call{Client: "w3", Number: 1, Verb: history.Claim, Queue: demoQueue, Want: 1, Begin: c.End, End: c.End, Fate: history.Done, Jobs: c.Jobs[:1:1]})
					return
				}
			}
		}, mustNotHappen[2], "job"},
		{"a killed worker's job that never ran", func(e *damaged) {
			e.kills[0].held[0].Attempt = 7
		}, "jobs of killed w2, run elsewhere within 5s", "did not run again"},
		{"a killed worker's job that ran late", func(e *damaged) {
			e.kills[0].at = e.kills[0].at.Add(-time.Minute)
		}, "jobs of killed w2, run elsewhere within 5s", "ran again after 1m0"},
		{"a finding of the database's check", func(e *damaged) { e.Check = []string{"job 3: two rows"} }, mustNotHappen[4], "job 3: two rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := fresh()
			c.damage(&e)
			v := e.verdict(e.Evidence)
			rows := v.Rows()
			i := slices.IndexFunc(rows, func(row Row) bool { return row.Text == c.broken })
			if v.Kept() || rows[i].Kept || !strings.Contains(fmt.Sprint(rows), c.says) {
				t.Errorf("want %q broken, with %q; the verdict: %+v", c.broken, c.says, rows)
			}
		})
	}
}

func TestTheDemosLoadIsMixedAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	p, second := newLoad(5000), newLoad(5000)
	if fmt.Sprint(p.limits) != fmt.Sprint(second.limits) || len(p.jobs) != 5000 {
		t.Fatalf("the plans differ or do not have 5000 jobs: %d", len(p.jobs))
	}
	var dead, failing, later, unique, inGroups int
	priorities := map[int]int{}
	for i, j := range p.jobs {
		if j.job.Payload != second.jobs[i].job.Payload {
			t.Fatalf("job %d differs from plan to plan", i)
		}
		priorities[*j.job.Priority]++
		work := j.job.Payload.(task)
		switch {
		case j.end == dibs.Dead:
			dead++
		case work.Failures > 0:
			failing++
		}
		if j.job.Delay > 0 {
			later++
		}
		if j.job.UniqueKey != "" {
			unique++
		}
		if j.job.Group != "" {
			inGroups++
		}
	}
	if dead != 50 || failing != 200 || later != 200 || unique != 50 || len(p.duplicates) != 50 {
		t.Errorf("dead %d, failing %d, later %d, unique %d, twice %d", dead, failing, later, unique, len(p.duplicates))
	}
	if len(priorities) != 3 || inGroups < 2000 || len(p.limits) != 20 {
		t.Errorf("priorities %v, in groups %d, limits %d", priorities, inGroups, len(p.limits))
	}
}
