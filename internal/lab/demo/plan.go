package demo

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
)

// The settings of the demo's queue. The lease is short so that the recovery of a
// killed worker's jobs can be seen; the default is 10 s.
const (
	Queue       = "demo"
	Kind        = "work"
	Lease       = 3 * time.Second
	deadAfter   = 3 // how many attempts the jobs have that always fail
	alwaysFails = 1 << 20
)

// backoff is short, so that failed jobs soon run again.
var backoff = dibs.Backoff{Base: 300 * time.Millisecond, Factor: 2, Max: 2 * time.Second, Jitter: 0.25}

// Payload says what a job of the demo does.
type Payload struct {
	Key      string `json:"key"`                // the job's place in the plan
	Millis   int    `json:"ms"`                 // how many milliseconds the handler takes
	Failures int    `json:"failures,omitempty"` // how many attempts fail before one completes it
}

// Planned is one job of the plan, with the final state that it must reach.
type Planned struct {
	New dibs.NewJob
	End dibs.State // Completed or Dead
}

// Plan is the demo's load and the limits of its groups.
type Plan struct {
	Jobs       []Planned
	Duplicates []dibs.NewJob  // second copies of the jobs with unique keys, which the database must refuse
	Limits     map[string]int // the groups' own limits; other groups have the default, 1
}

// NewPlan makes a plan of n jobs. For the same n it is always the same.
//
//	priority  20 % high (0), 50 % normal (100), 30 % low (200)
//	groups    43 %, over 60 groups: 40 with a limit of 1, 20 with a limit of 2
//	failing   4 % once or twice before they complete, 1 % always
//	later     4 % may start 2 to 8 s after they are enqueued
//	unique    1 % hold a unique key, and are enqueued a second time
func NewPlan(n int) Plan {
	rng := rand.New(rand.NewPCG(1, 2)) // random numbers decide only how long handlers take
	p := Plan{Jobs: make([]Planned, n), Limits: map[string]int{}}
	for g := range groups {
		if g%3 == 2 {
			p.Limits[groupName(g)] = 2
		}
	}
	for i := range n {
		p.Jobs[i] = planned(i, 20+rng.IntN(100))
		if key := p.Jobs[i].New.UniqueKey; key != "" {
			p.Duplicates = append(p.Duplicates, p.Jobs[i].New)
		}
	}
	return p
}

const groups = 60

func groupName(g int) string { return fmt.Sprintf("customer-%02d", g) }

func planned(i, millis int) Planned {
	work := Payload{Key: strconv.Itoa(i), Millis: millis}
	j := dibs.NewJob{Queue: Queue, Kind: Kind, Priority: priority(i)}
	end := dibs.Completed
	if i%7 < 3 {
		j.Group = groupName(i / 7 % groups)
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
	return Planned{New: j, End: end}
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
