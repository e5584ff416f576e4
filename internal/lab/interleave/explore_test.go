package interleave

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// toy runs one actor for each number in steps, which makes that many steps.
func toy(t *testing.T, prefix []int, steps []int, before func(actor int, step *Step) error) (schedule, error) {
	names := slices.Repeat([]string{"a"}, len(steps))
	s := newScheduler(names, func(int) ([]int, error) { return nil, nil }, func() {})
	var programs []func()
	for i, n := range steps {
		programs = append(programs, func() {
			for range n {
				if !s.stop(i, Step{Name: "s"}) {
					return
				}
			}
		})
	}
	return s.play(context.WithoutCancel(t.Context()), prefix, programs, before, func(*Step, []wait) error { return nil })
}

func free(int, *Step) error { return nil }

func TestEveryInterleavingIsRunOnce(t *testing.T) {
	for _, c := range []struct {
		steps []int
		all   int // the multinomial coefficient
	}{{[]int{3}, 1}, {[]int{2, 2}, 6}, {[]int{4, 4}, 70}, {[]int{2, 3, 2}, 210}} {
		seen := map[string]bool{}
		done, _, err := explore(1, 1000, func(prefix []int) (schedule, error) {
			ran, err := toy(t, prefix, c.steps, free)
			seen[ran.String()] = true
			return ran, err
		})
		if err != nil || !done.complete || done.runs != c.all || len(seen) != c.all {
			t.Errorf("%v: %d runs, %d different, want %d: %v", c.steps, done.runs, len(seen), c.all, err)
		}
	}
}

func TestTheSimplestFailureComesFirst(t *testing.T) {
	_, ran, err := explore(1, 1000, func(prefix []int) (schedule, error) {
		last, turns := -1, 0
		ran, err := toy(t, prefix, []int{3, 3}, func(actor int, _ *Step) error {
			if actor != last {
				last, turns = actor, turns+1
			}
			return nil
		})
		if turns >= 3 {
			err = errAbandoned
		}
		return ran, err
	})
	if digits := ran.String(); err == nil || len(slices.Compact([]byte(digits))) != 3 {
		t.Errorf("the first schedule with 3 turns is %q: %v", digits, err)
	}
}

func TestADeadlockIsAFailure(t *testing.T) {
	s := newScheduler([]string{"one", "two"}, func(i int) ([]int, error) { return []int{1 - i}, nil }, func() {})
	locked := make(chan struct{})
	s.giveUp = func() { close(locked) }
	program := func(i int) func() {
		return func() {
			if s.stop(i, Step{Name: "lock"}) {
				<-locked
			}
		}
	}
	_, err := s.play(t.Context(), nil, []func(){program(0), program(1)}, free, func(*Step, []wait) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "nobody can go on") {
		t.Errorf("two actors that wait for each other: %v", err)
	}
}

func TestAScheduleThatDoesNotRepeatIsAFailure(t *testing.T) {
	if _, err := toy(t, []int{0, 0}, []int{1, 1}, free); err == nil {
		t.Error("the schedule chose an actor that had ended, and the run did not fail")
	}
}
