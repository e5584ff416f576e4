package interleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is what an actor is about to do.
type Step struct {
	Name  string
	Ends  bool        // it ends a transaction: what is committed may change
	Holds bool        // steps before it have changed or locked something, and not committed it
	Idle  bool        // it cannot succeed before another transaction has ended
	Free  func() bool // nil, or whether it can be done now
}

// choice is one decision of the scheduler.
type choice struct {
	actor int
	step  string
	could []int  // who could have gone on
	waits []wait // for locks, after it
}

// wait says that an actor waits for a lock that another one holds or will get first.
type wait struct{ actor, by int }

// schedule is a run as it went: of its choices, the actors' numbers replay it.
type schedule struct {
	names   []string
	choices []choice
}

// String is the form that DIBS_SCHEDULE takes: one digit per choice.
func (s schedule) String() string { return digits(s.prefix(len(s.choices))) }

func (s schedule) prefix(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = s.choices[i].actor
	}
	return p
}

// list is the schedule for a reader, one line per choice.
func (s schedule) list() string {
	var b strings.Builder
	for i, c := range s.choices {
		fmt.Fprintf(&b, "%4d  %-10s %s", i+1, s.names[c.actor], c.step)
		for _, w := range c.waits {
			fmt.Fprintf(&b, "   (%s waits for %s)", s.names[w.actor], s.names[w.by])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func digits(list []int) string {
	b := make([]byte, len(list))
	for i, n := range list {
		b[i] = byte('0' + n)
	}
	return string(b)
}

// scheduler lets one actor at a time make a step. Its fields belong to the goroutine
// of play; actors touch only their channels.
type scheduler struct {
	names   []string
	arrived chan arrival
	release []chan bool
	at      []*Step // where an actor has stopped; nil: it runs, or waits for a lock
	ended   []bool
	last    int              // who made the last step
	ends    []int            // transactions that each has ended
	tried   []map[string]int // othersEnds, when the actor last made the step of this name
	blocked func(actor int) ([]int, error)
	giveUp  func() // ends what actors wait for
}

// arrival says that an actor has come to a step, or with nil that it has ended.
type arrival struct {
	actor int
	step  *Step
}

// errAbandoned ends an actor's program when its run is given up.
var errAbandoned = errors.New("the run has been given up")

func newScheduler(names []string, blocked func(int) ([]int, error), giveUp func()) *scheduler {
	n := len(names)
	s := &scheduler{
		names: names, blocked: blocked, giveUp: giveUp, last: -1,
		arrived: make(chan arrival), at: make([]*Step, n), ended: make([]bool, n), ends: make([]int, n),
	}
	for range names {
		s.release = append(s.release, make(chan bool))
		s.tried = append(s.tried, map[string]int{})
	}
	return s
}

// stop is called by an actor before each step; false: give up.
func (s *scheduler) stop(actor int, step Step) bool {
	s.arrived <- arrival{actor, &step}
	return <-s.release[actor]
}

// play runs the programs by the given choices, and then without turning away from
// whoever can go on. before is called when a step has been chosen, after when
// everybody stands again.
func (s *scheduler) play(ctx context.Context, prefix []int, programs []func(), before func(int, *Step) error, after func(*Step, []wait) error) (sch schedule, err error) {
	sch.names = s.names
	for i, program := range programs {
		go func() {
			program()
			s.arrived <- arrival{i, nil}
		}()
	}
	defer s.abandon()
	if _, err := s.settle(ctx); err != nil {
		return sch, err
	}
	for len(sch.choices) < 10_000 {
		could := s.enabled()
		if len(could) == 0 {
			return sch, s.stuck()
		}
		next := could[0]
		if slices.Contains(could, s.last) {
			next = s.last
		}
		if n := len(sch.choices); n < len(prefix) {
			if next = prefix[n]; !slices.Contains(could, next) {
				return sch, fmt.Errorf("choice %d of the schedule is %d, but only %v can go on: the run does not repeat", n+1, next, could)
			}
		}
		step := s.at[next]
		sch.choices = append(sch.choices, choice{actor: next, step: step.Name, could: could})
		if err := before(next, step); err != nil {
			return sch, err
		}
		waits, err := s.let(ctx, next, step)
		sch.choices[len(sch.choices)-1].waits = waits
		if err == nil {
			err = after(step, waits)
		}
		if err != nil {
			return sch, err
		}
	}
	return sch, errors.New("the run does not end")
}

func (s *scheduler) enabled() (list []int) {
	for i, step := range s.at {
		// Repeating what found a lock is of no use while nobody has let go of one.
		if step != nil && (step.Free == nil || step.Free()) && (!step.Idle || s.othersEnds(i) > s.tried[i][step.Name]) {
			list = append(list, i)
		}
	}
	return list
}

// othersEnds counts the transactions that others have ended: since that number was the
// same, nobody has let go of a lock.
func (s *scheduler) othersEnds(actor int) (n int) {
	for i, ends := range s.ends {
		if i != actor {
			n += ends
		}
	}
	return n
}

// disturbed reports whether anybody else has a transaction open that holds something.
func (s *scheduler) disturbed(actor int) bool {
	for i, step := range s.at {
		if i != actor && !s.ended[i] && (step == nil || step.Holds) {
			return true
		}
	}
	return false
}

// let makes one step and waits until everybody stands again.
func (s *scheduler) let(ctx context.Context, actor int, step *Step) ([]wait, error) {
	s.tried[actor][step.Name] = s.othersEnds(actor)
	if step.Ends {
		s.ends[actor]++
	}
	s.last, s.at[actor] = actor, nil
	s.release[actor] <- true
	return s.settle(ctx)
}

// settle waits until every actor has stopped, has ended or waits for a lock that
// another one holds. It asks the database who waits only if somebody does not arrive.
func (s *scheduler) settle(ctx context.Context) ([]wait, error) {
	const patience = 2 * time.Millisecond
	for {
		running := s.running()
		if len(running) == 0 {
			return nil, nil
		}
		select {
		case a := <-s.arrived:
			s.note(a)
			continue
		case <-time.After(patience):
		case <-ctx.Done():
			return nil, fmt.Errorf("%v neither stop nor wait for a lock: %w", s.named(running), ctx.Err())
		}
		var waits []wait
		all := true
		for _, i := range running {
			by, err := s.blocked(i)
			if err != nil {
				return nil, err
			}
			all = all && len(by) > 0
			for _, b := range by {
				waits = append(waits, wait{i, b})
			}
		}
		if all {
			return waits, nil
		}
	}
}

func (s *scheduler) running() (list []int) {
	for i := range s.at {
		if s.at[i] == nil && !s.ended[i] {
			list = append(list, i)
		}
	}
	return list
}

func (s *scheduler) note(a arrival) {
	s.at[a.actor], s.ended[a.actor] = a.step, a.step == nil
}

// stuck tells the end of a run from a deadlock.
func (s *scheduler) stuck() error {
	if !slices.Contains(s.ended, false) {
		return nil
	}
	var rest []string
	for i, name := range s.names {
		switch {
		case s.ended[i]:
		case s.at[i] == nil:
			rest = append(rest, name+" waits for a lock")
		default:
			rest = append(rest, name+" cannot do "+s.at[i].Name)
		}
	}
	return fmt.Errorf("nobody can go on: %s", strings.Join(rest, ", "))
}

// abandon ends the actors that have not come to their end.
func (s *scheduler) abandon() {
	if slices.Contains(s.ended, false) {
		s.giveUp()
	}
	for slices.Contains(s.ended, false) {
		for i, step := range s.at {
			if step != nil {
				s.at[i] = nil
				s.release[i] <- false
			}
		}
		if len(s.running()) > 0 {
			s.note(<-s.arrived)
		}
	}
}

func (s *scheduler) named(list []int) []string {
	names := make([]string, len(list))
	for i, n := range list {
		names[i] = s.names[n]
	}
	return names
}
