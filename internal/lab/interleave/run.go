package interleave

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"
)

// Options of Run.
type Options struct {
	Most int // largest number of interleavings run for each scenario; 0: all
	Seed uint64
	// Waits lists which call may wait for a lock of which, as "finish for cancel". All other waits are failures.
	Waits []string
}

// Scenario is a program for a few actors.
type Scenario struct {
	Name   string
	Setup  func(*Setup)
	Actors []Actor
}

// Actor is one actor of a scenario. Its calls may depend only on the answers that it gets.
type Actor struct {
	Name string
	Do   func(*Client, *Setup)
}

// envSchedule is the environment variable for one schedule to run instead of all.
const envSchedule = "DIBS_SCHEDULE"

// Run runs all scenarios, each on a bench of its own.
func Run(t *testing.T, o Options, open func(testing.TB) Bench) {
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			c, err := s.Run(t.Context(), o, open(t))
			t.Log(c)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Run runs the scenario in every order, and returns what it covered and the first
// failure, with the schedule that led there.
func (s *Scenario) Run(ctx context.Context, o Options, bench Bench) (fmt.Stringer, error) {
	maxRuns := o.Most
	if maxRuns == 0 {
		maxRuns = int(^uint(0) >> 1)
	}
	seen := map[string]bool{}
	run := func(prefix []int) (schedule, error) {
		const patience = time.Minute
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		w := newWorld(ctx, cancel, bench, s)
		ran, err := w.play(s, prefix)
		maps.Copy(seen, w.waits)
		for wait := range w.waits {
			if err == nil && !slices.Contains(o.Waits, wait) {
				err = fmt.Errorf("this wait for a lock is not allowed: %s", wait)
			}
		}
		return ran, err
	}
	if only := os.Getenv(envSchedule); only != "" {
		ran, err := run(choices(only))
		return coverage{runs: 1}, failure(s, ran, err)
	}
	c, ran, err := explore(o.Seed, maxRuns, run)
	c.waits = slices.Sorted(maps.Keys(seen))
	return c, failure(s, ran, err)
}

// named finds a scenario, and panics if there is none of that name.
func named(name string) *Scenario {
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == name })
	return &scenarios[i]
}

func choices(digits string) (list []int) {
	for _, d := range digits {
		list = append(list, int(d-'0'))
	}
	return list
}

func failure(s *Scenario, ran schedule, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s\nto repeat it, run this test with %s=%s", err, ran.list(), envSchedule, ran)
}
