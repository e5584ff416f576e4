package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
)

const (
	// DemoWorkers is how many worker processes a demo begins with.
	DemoWorkers = 4
	demoQueue   = "demo"
	// DemoLease is short so that the recovery of a killed worker's jobs can be seen; the default is 10 s.
	DemoLease       = 3 * time.Second
	demoConcurrency = 8 // how many jobs each worker process runs at once
	deadAfter       = 3 // how many attempts the jobs have that always fail
	alwaysFails     = 1 << 20
)

// demoBackoff is short, so that failed jobs soon run again.
var demoBackoff = dibs.Backoff{Base: 300 * time.Millisecond, Factor: 2, Max: 2 * time.Second, Jitter: 0.25}

// task is the payload of a job of the demo, and says what it does.
type task struct {
	Key      string `json:"key"`                // the job's place in the load
	Millis   int    `json:"ms"`                 // how many milliseconds the handler takes
	Failures int    `json:"failures,omitempty"` // how many attempts fail before one completes it
}

// planned is one job of the demo, with the final state that it must reach.
type planned struct {
	job dibs.NewJob
	end dibs.State // Completed or Dead
}

// load is what the demo enqueues, and the limits of its groups.
type load struct {
	jobs       []planned
	duplicates []dibs.NewJob  // second copies of the jobs with unique keys, which the database must refuse
	limits     map[string]int // the groups' own limits; other groups have the default, 1
}

// newLoad makes a load of n jobs. For the same n it is always the same.
//
//	priority  20 % high (0), 50 % normal (100), 30 % low (200)
//	groups    43 %, over 60 groups: 40 with a limit of 1, 20 with a limit of 2
//	failing   4 % once or twice before they complete, 1 % always
//	later     4 % may start 2 to 8 s after they are enqueued
//	unique    1 % hold a unique key, and are enqueued a second time
func newLoad(n int) load {
	rng := rand.New(rand.NewPCG(1, 2)) // random numbers decide only how long handlers take
	l := load{jobs: make([]planned, n), limits: map[string]int{}}
	for g := range customers {
		if g%3 == 2 {
			l.limits[customer(g)] = 2
		}
	}
	for i := range n {
		l.jobs[i] = plannedJob(i, 20+rng.IntN(100))
		if l.jobs[i].job.UniqueKey != "" {
			l.duplicates = append(l.duplicates, l.jobs[i].job)
		}
	}
	return l
}

const customers = 60

func customer(g int) string { return fmt.Sprintf("customer-%02d", g) }

func plannedJob(i, millis int) planned {
	work := task{Key: strconv.Itoa(i), Millis: millis}
	j := dibs.NewJob{Queue: demoQueue, Kind: "work", Priority: priority(i)}
	end := dibs.Completed
	if i%7 < 3 {
		j.Group = customer(i / 7 % customers)
	}
	switch {
	case i%100 == 13:
		work.Failures, j.MaxAttempts, end = alwaysFails, deadAfter, dibs.Dead
	case i%25 == 7:
		work.Failures = 1 + i/25%2
	case i%25 == 11:
		j.Delay = 2*time.Second + time.Duration(i%7)*time.Second
	case i%100 == 24:
		j.UniqueKey = fmt.Sprintf("invoice-%d", i)
	}
	j.Payload = work
	return planned{j, end}
}

func priority(i int) *int {
	p := 100
	switch {
	case i%10 < 2:
		p = 0
	case i%10 >= 7:
		p = 200
	}
	return &p
}

// workDemo is the work of one of the demo's processes: it runs jobs until ctx ends.
func (c *client) workDemo(ctx context.Context) error {
	return c.runWorker(ctx, &dibs.Worker{Queue: demoQueue, Name: c.Client, Concurrency: demoConcurrency}, doTask)
}

// doTask is the handler of the demo's jobs.
func doTask(ctx context.Context, job *dibs.RawJob) error {
	var t task
	if err := json.Unmarshal(job.Payload, &t); err != nil {
		return dibs.Die(err)
	}
	wait(ctx, time.Duration(t.Millis)*time.Millisecond)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case job.Attempt <= t.Failures:
		return errOnPurpose
	}
	return nil
}
