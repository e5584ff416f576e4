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
	Most int // interleavings of each scenario; 0: all
	Seed uint64
	// Waits lists whose call may wait for whose, as "finish for cancel". Nobody else may.
	Waits []string
}

// Scenario is a program for a few actors.
type Scenario struct {
	Name   string
	Setup  func(*Setup)
	Actors []Actor
}

// Actor is one of them; what it does must depend on nothing but the answers it gets.
type Actor struct {
	Name string
	Do   func(*Client, *Setup)
}

// envSchedule names the variable with one schedule to run instead of all.
const envSchedule = "DIBS_SCHEDULE"

// Run runs all scenarios, each on a bench of its own.
func Run(t *testing.T, o Options, open func(testing.TB) Bench) {
	for _, s := range Scenarios {
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
	most := o.Most
	if most == 0 {
		most = int(^uint(0) >> 1)
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
				err = fmt.Errorf("nobody may wait like this: %s", wait)
			}
		}
		return ran, err
	}
	if only := os.Getenv(envSchedule); only != "" {
		ran, err := run(choices(only))
		return coverage{runs: 1}, failure(s, ran, err)
	}
	c, ran, err := explore(o.Seed, most, run)
	c.waits = slices.Sorted(maps.Keys(seen))
	return c, failure(s, ran, err)
}

// Named finds a scenario; a wrong name is a mistake of the program.
func Named(name string) *Scenario {
	at := slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.Name == name })
	return &Scenarios[at]
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
	return fmt.Errorf("%w\n%s\nagain: %s=%s with -run of this test", err, ran.list(), envSchedule, ran)
}
