package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// begin is when the doctored histories begin. The database's clock is an hour
// behind that of the workers, which must not matter.
var begin = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const behind = time.Hour

// at is a time of the workers' clock.
func at(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }

// run is an attempt that is claimed 2 ms before it begins.
func run(worker string, job int64, attempt, startMS, endMS int, completed bool) *Attempt {
	claimed := at(startMS - 2).Add(-behind)
	a := &Attempt{Record{
		Worker: worker, Job: job, Attempt: attempt, Token: dibs.Token{byte(job), byte(attempt), 1},
		Start: at(startMS), ClaimedAt: claimed, LeaseUntil: claimed.Add(Lease), RunAt: claimed.Add(-time.Millisecond),
		Completed: completed, Written: true,
	}}
	if endMS > 0 {
		a.End = at(endMS)
	}
	return a
}

func grouped(a *Attempt, group string) *Attempt {
	a.Group = group
	return a
}

// honest is a run in which everything happened as it should:
//
//	job 1 completes                          job 5, 6, 7 are of group "two", limit 2
//	job 2 fails, then completes              job 8 is dead after 2 attempts
//	job 3, 4 are of group "one", one by one  job 9 was running when w2 was killed at 1000
//	job 10 had completed, but w2 was killed before it could write that
//	job 11 had been claimed by w2, but not begun
func honest() Evidence {
	e := Evidence{
		Plan:    Plan{Limits: map[string]int{"two": 2}, Twice: []dibs.NewJob{{UniqueKey: "k"}}},
		Refused: 1,
		Final:   map[int64]*dibs.RawJob{},
		History: []*Attempt{
			run("w1", 1, 1, 100, 200, true),
			run("w1", 2, 1, 100, 200, false), run("w2", 2, 2, 500, 600, true),
			grouped(run("w1", 3, 1, 100, 200, true), "one"), grouped(run("w2", 4, 1, 200, 300, true), "one"),
			grouped(run("w1", 5, 1, 100, 200, true), "two"), grouped(run("w1", 6, 1, 150, 300, true), "two"),
			grouped(run("w2", 7, 1, 200, 300, true), "two"),
			run("w1", 8, 1, 100, 200, false), run("w1", 8, 2, 700, 800, false),
			run("w2", 9, 1, 950, 0, false), run("w1", 9, 2, 4100, 4200, true),
			run("w2", 10, 1, 950, 990, true), run("w1", 10, 2, 4100, 4200, true),
			run("w1", 11, 2, 4200, 4300, true),
		},
	}
	for id := int64(1); id <= 11; id++ {
		end, attempts := dibs.Completed, 1
		switch id {
		case 8:
			end, attempts = dibs.Dead, 2
		case 2, 9, 10, 11:
			attempts = 2
		}
		e.Plan.Jobs = append(e.Plan.Jobs, Planned{End: end})
		e.IDs = append(e.IDs, id)
		e.Final[id] = &dibs.RawJob{ID: id, State: end, Attempt: attempts, FinishedAt: at(5000).Add(-behind)}
	}
	kill := Kill{Worker: "w2", At: at(1000)}
	for id := int64(9); id <= 11; id++ {
		kill.Held = append(kill.Held, &dibs.RawJob{ID: id, Attempt: 1, Token: dibs.Token{byte(id), 1, 1}})
	}
	e.Kills = []Kill{kill}
	e.attempt(10, 1).Written = false
	return e
}

// attempt finds one of the history.
func (e Evidence) attempt(job int64, n int) *Attempt {
	i := slices.IndexFunc(e.History, func(a *Attempt) bool { return a.Job == job && a.Attempt == n })
	return e.History[i]
}

func TestAnHonestRunKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	v := Judge(honest())
	for _, p := range v.Promises {
		if !p.Kept || p.Got != p.Want || len(p.Broken) > 0 {
			t.Errorf("%s: got %d, want %d, %v", p.Text, p.Got, p.Want, p.Broken)
		}
	}
	want := []time.Duration{3100 * time.Millisecond, 3100 * time.Millisecond, 3200 * time.Millisecond}
	if !slices.Equal(v.Recovery, want) {
		t.Errorf("recovery times %v, want %v", v.Recovery, want)
	}
}

// What the promises are called.
const (
	enqueued  = "jobs enqueued"
	refused   = "duplicates refused by their unique key"
	completed = "completed"
	dead      = "dead, because they always fail"
	left      = "jobs left behind"
	lost      = "jobs lost"
	overlap   = "two workers on one job at once"
	group     = "groups over their limit"
	early     = "jobs started before their time"
	again     = "jobs run again after they had completed"
	accounted = "attempts counted, all accounted for"
	recovered = "jobs of killed w2, run elsewhere within 5s"
	check     = "faults that the database check found"
)

// doctoring is a way to spoil an honest run, and the promises that it breaks.
type doctoring struct {
	name   string
	doctor func(e *Evidence)
	broken []string
	says   string // in what is said of the broken promises
}

var doctoredEndings = []doctoring{
	{"two jobs with one id", func(e *Evidence) { e.IDs[1] = e.IDs[0] }, []string{enqueued}, ""},
	{"a job from nowhere", func(e *Evidence) {
		e.Final[12] = &dibs.RawJob{ID: 12, State: dibs.Completed}
	}, []string{enqueued}, "job 12 was not enqueued by anybody"},
	{"a duplicate that got in", func(e *Evidence) { e.Refused = 0 }, []string{refused}, ""},
	{
		"a job that is nowhere", func(e *Evidence) { delete(e.Final, 1) },
		[]string{completed, lost},
		"job 1 is not in the database",
	},
	{"a job left running", func(e *Evidence) {
		e.Left = append(e.Left, &dibs.RawJob{ID: 1, State: dibs.Running, Attempt: 1})
		delete(e.Final, 1)
	}, []string{completed, left}, "job 1 is running"},
	{
		"a job dead that should have completed", func(e *Evidence) { e.Final[2].State = dibs.Dead },
		[]string{completed},
		"job 2 is dead",
	},
	{
		"a job completed that should be dead", func(e *Evidence) { e.Final[8].State = dibs.Completed },
		[]string{dead},
		"job 8 is completed",
	},
	{
		"a job completed by nobody", func(e *Evidence) { e.attempt(1, 1).Completed = false },
		[]string{completed},
		"job 1 is completed, but no worker completed it",
	},
}

var doctoredCollisions = []doctoring{
	{"a second worker that begins 1 ms before the first returns", func(e *Evidence) {
		e.attempt(2, 2).Start = at(199)
	}, []string{overlap}, "job 2: attempt 2 (w2) began 1ms before attempt 1 (w1) was over"},
	{"an attempt within one that began before another", func(e *Evidence) {
		e.attempt(8, 1).End = at(2000)
		e.History = append(e.History, run("w2", 8, 3, 900, 950, false))
		e.Final[8].Attempt = 3
	}, []string{overlap}, "job 8: attempt"},
	{
		"a number used twice", func(e *Evidence) { e.attempt(8, 2).Attempt = 1 },
		[]string{overlap, accounted},
		"job 8: attempt 1 (w1) began after attempt 1 (w1)",
	},
	{"a killed worker's job taken before its lease ended", func(e *Evidence) {
		*e.attempt(9, 2) = *run("w1", 9, 2, 950+2999, 4200, true)
	}, []string{overlap}, "job 9: attempt 2 (w1) began"},
	{"a killed worker's returned job taken before its lease ended", func(e *Evidence) {
		*e.attempt(10, 2) = *run("w1", 10, 2, 1500, 1600, true)
	}, []string{overlap}, "job 10: attempt 2 (w1) began"},
	{
		"a group of one with two", func(e *Evidence) { e.attempt(4, 1).Start = at(199) },
		[]string{group},
		"group one: job 4 (w2) began as number 2, the limit is 1",
	},
	{
		"a group of two with three", func(e *Evidence) { e.attempt(7, 1).Start = at(199) },
		[]string{group},
		"group two: job 7 (w2) began as number 3, the limit is 2",
	},
	{"a killed worker's place in a group given away before its lease ended", func(e *Evidence) {
		grouped(e.attempt(9, 1), "one")
		*e.attempt(11, 2) = *grouped(run("w1", 11, 2, 3000, 3100, true), "one")
	}, []string{group}, "group one: job 11 (w1) began as number 2"},
	{
		"a job that ran early", func(e *Evidence) { e.attempt(1, 1).RunAt = at(99).Add(-behind) },
		[]string{early},
		"job 1: attempt 1 was claimed 1ms before its run_at",
	},
	{"a job that completed twice", func(e *Evidence) {
		e.History = append(e.History, run("w2", 1, 2, 400, 500, true))
		e.Final[1].Attempt = 2
	}, []string{again}, "job 1: attempt 2 (w2) began after attempt 1 (w1) had completed it"},
	{
		"a claim that nobody ran", func(e *Evidence) { e.Final[1].Attempt = 2 },
		[]string{completed, accounted},
		"job 1: nobody ran attempt 2",
	},
	{
		"a run that the database did not count", func(e *Evidence) { e.Final[2].Attempt = 1 },
		[]string{completed, accounted},
		"job 2: ran 2 attempts, the database counted 1",
	},
	{
		"a killed worker's job that ran late", func(e *Evidence) { e.attempt(11, 2).Start = at(6001); e.attempt(11, 2).End = at(6002) },
		[]string{recovered},
		"job 11 ran again after 5.001s",
	},
	{"a killed worker's job that never ran", func(e *Evidence) {
		e.History = slices.DeleteFunc(e.History, func(a *Attempt) bool { return a.Job == 9 && a.Attempt == 2 })
		e.Final[9].Attempt = 1
	}, []string{completed, recovered}, "job 9 did not run again"},
	{
		"a database that is broken", func(e *Evidence) { e.Check = []string{"job 3: two rows"} },
		[]string{check},
		"job 3: two rows",
	},
}

// Each doctored history must break the promises named, and only those.
func TestTheVerdictFinds(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(doctoredEndings, doctoredCollisions) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := honest()
			c.doctor(&e)
			v := Judge(e)
			if v.Kept() {
				t.Fatal("the verdict found nothing")
			}
			var broken []string
			var said string
			for _, p := range v.Promises {
				if !p.Kept {
					broken = append(broken, p.Text)
					said += strings.Join(p.Broken, "\n") + "\n"
				}
			}
			if !slices.Equal(broken, c.broken) {
				t.Errorf("broken promises %q, want %q", broken, c.broken)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("the verdict says %q, want it to say %q", said, c.says)
			}
		})
	}
}

// A killed worker's last attempt may be the death of its job.
func TestAJobThatDiesWithItsWorkersLeaseIsRecovered(t *testing.T) {
	t.Parallel()
	e := honest()
	e.History = slices.DeleteFunc(e.History, func(a *Attempt) bool { return a.Job == 9 && a.Attempt == 2 })
	e.Final[9] = &dibs.RawJob{ID: 9, State: dibs.Dead, Attempt: 1, FinishedAt: at(4000).Add(-behind)}
	e.Plan.Jobs[8].End = dibs.Dead
	if v := Judge(e); !v.Kept() {
		t.Errorf("broken: %+v", v.Promises)
	}
}

// An outcome that the server wrote after its worker was killed stands.
func TestAnOutcomeThatWasOnItsWayCounts(t *testing.T) {
	t.Parallel()
	e := honest()
	e.History = slices.DeleteFunc(e.History, func(a *Attempt) bool { return a.Job == 10 && a.Attempt == 2 })
	e.Final[10].Attempt = 1
	v := Judge(e)
	if !v.Kept() || len(v.Recovery) != 2 {
		t.Errorf("recovery of %d jobs, want 2; promises %+v", len(v.Recovery), v.Promises)
	}
}

func TestThePlanIsMixedAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	p, again := NewPlan(5000), NewPlan(5000)
	if fmt.Sprint(p.Limits) != fmt.Sprint(again.Limits) || len(p.Jobs) != 5000 {
		t.Fatalf("plans differ, or have not 5000 jobs: %d", len(p.Jobs))
	}
	var dead, failing, later, unique, inGroups int
	priorities := map[int]int{}
	for i, j := range p.Jobs {
		if j.New.Payload != again.Jobs[i].New.Payload {
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
	if dead != 50 || failing != 200 || later != 200 || unique != 50 || len(p.Twice) != 50 {
		t.Errorf("dead %d, failing %d, later %d, unique %d, twice %d", dead, failing, later, unique, len(p.Twice))
	}
	if len(priorities) != 3 || inGroups < 2000 || len(p.Limits) != 20 {
		t.Errorf("priorities %v, in groups %d, limits %d", priorities, inGroups, len(p.Limits))
	}
}
