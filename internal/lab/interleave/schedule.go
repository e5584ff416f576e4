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
	Ends  bool        // ends a transaction, so that the committed rows may change
	Holds bool        // the actor's transaction is open and has changed or locked rows
	Idle  bool        // cannot succeed before another transaction has ended
	Free  func() bool // reports whether the step can be made now; nil: always
	// Timeless says that the step goes by the time which an earlier one of its call has read.
	Timeless bool
}

// choice is one decision of the scheduler.
type choice struct {
	actor   int
	step    string
	enabled []int  // actors that could have gone on
	waits   []wait // lock waits after the step
}

// wait is an actor's wait for a lock that the holder has or will get first.
type wait struct{ actor, holder int }

// schedule is the record of a run. The actor numbers of its choices replay it.
type schedule struct {
	names   []string
	choices []choice
}

// String formats the schedule for DIBS_SCHEDULE: one digit for each choice.
func (s schedule) String() string { return digits(s.prefix(len(s.choices))) }

func (s schedule) prefix(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = s.choices[i].actor
	}
	return p
}

// list formats the schedule for a reader, one line for each choice.
func (s schedule) list() string {
	var b strings.Builder
	for i, c := range s.choices {
		fmt.Fprintf(&b, "%4d  %-10s %s", i+1, s.names[c.actor], c.step)
		for _, w := range c.waits {
			fmt.Fprintf(&b, "   (%s waits for %s)", s.names[w.actor], s.names[w.holder])
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
	names     []string
	arrived   chan arrival
	release   []chan bool
	stopped   []*Step // the step before which each actor has stopped; nil: it runs, or waits for a lock
	ended     []bool
	lastActor int              // the actor that made the last step
	txEnds    []int            // number of transactions that each actor has ended
	triedAt   []map[string]int // othersEnds when each actor last made the step of this name
	blocked   func(actor int) ([]int, error)
	giveUp    func() // cancels the statements that wait for locks
}

// arrival announces that an actor has stopped before a step, or with nil that it has ended.
type arrival struct {
	actor int
	step  *Step
}

// errAbandoned ends an actor's program after its run was given up.
var errAbandoned = errors.New("the run has been given up")

func newScheduler(names []string, blocked func(int) ([]int, error), giveUp func()) *scheduler {
	n := len(names)
	s := &scheduler{
		names: names, blocked: blocked, giveUp: giveUp, lastActor: -1,
		arrived: make(chan arrival), stopped: make([]*Step, n), ended: make([]bool, n), txEnds: make([]int, n),
	}
	for range names {
		s.release = append(s.release, make(chan bool))
		s.triedAt = append(s.triedAt, map[string]int{})
	}
	return s
}

// stop waits until the actor may make the step; false tells it to give up.
func (s *scheduler) stop(actor int, step Step) bool {
	s.arrived <- arrival{actor, &step}
	return <-s.release[actor]
}

// play runs the programs by the choices of prefix, and then lets the same actor go on as
// long as it can. It calls before when it has chosen a step, and after when no actor runs
// any more.
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
		if slices.Contains(could, s.lastActor) {
			next = s.lastActor
		}
		if n := len(sch.choices); n < len(prefix) {
			if next = prefix[n]; !slices.Contains(could, next) {
				return sch, fmt.Errorf("choice %d of the schedule is actor %d, but only %v can go on: the run is not repeatable", n+1, next, could)
			}
		}
		step := s.stopped[next]
		sch.choices = append(sch.choices, choice{actor: next, step: step.Name, enabled: could})
		if err := before(next, step); err != nil {
			return sch, err
		}
		waits, err := s.advance(ctx, next, step)
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
	for i, step := range s.stopped {
		// A step that met a lock meets it again until another transaction has ended.
		if step != nil && (step.Free == nil || step.Free()) && (!step.Idle || s.othersEnds(i) > s.triedAt[i][step.Name]) {
			list = append(list, i)
		}
	}
	return list
}

// othersEnds counts the transactions that other actors have ended. While the number stays
// the same, none of their locks has been released.
func (s *scheduler) othersEnds(actor int) (n int) {
	for i, ends := range s.txEnds {
		if i != actor {
			n += ends
		}
	}
	return n
}

// disturbed reports whether another actor's open transaction has changed or locked rows.
func (s *scheduler) disturbed(actor int) bool {
	for i, step := range s.stopped {
		if i != actor && !s.ended[i] && (step == nil || step.Holds) {
			return true
		}
	}
	return false
}

// advance lets the actor make its step, and waits until no actor runs any more.
func (s *scheduler) advance(ctx context.Context, actor int, step *Step) ([]wait, error) {
	s.triedAt[actor][step.Name] = s.othersEnds(actor)
	if step.Ends {
		s.txEnds[actor]++
	}
	s.lastActor, s.stopped[actor] = actor, nil
	s.release[actor] <- true
	return s.settle(ctx)
}

// settle waits until every actor has stopped, has ended or waits for another's lock. It
// asks the database for the waits only if an actor does not arrive in time.
func (s *scheduler) settle(ctx context.Context) ([]wait, error) {
	const patience = 2 * time.Millisecond
	for {
		running := s.running()
		if len(running) == 0 {
			return nil, nil
		}
		select {
		case a := <-s.arrived:
			s.record(a)
			continue
		case <-time.After(patience):
		case <-ctx.Done():
			return nil, fmt.Errorf("%v neither stop nor wait for a lock: %w", s.named(running), ctx.Err())
		}
		var waits []wait
		all := true
		for _, i := range running {
			holders, err := s.blocked(i)
			if err != nil {
				return nil, err
			}
			all = all && len(holders) > 0
			for _, holder := range holders {
				waits = append(waits, wait{i, holder})
			}
		}
		if all {
			return waits, nil
		}
	}
}

func (s *scheduler) running() (list []int) {
	for i := range s.stopped {
		if s.stopped[i] == nil && !s.ended[i] {
			list = append(list, i)
		}
	}
	return list
}

func (s *scheduler) record(a arrival) {
	s.stopped[a.actor], s.ended[a.actor] = a.step, a.step == nil
}

// stuck returns nil at the end of a run, and an error in a deadlock.
func (s *scheduler) stuck() error {
	if !slices.Contains(s.ended, false) {
		return nil
	}
	var rest []string
	for i, name := range s.names {
		switch {
		case s.ended[i]:
		case s.stopped[i] == nil:
			rest = append(rest, name+" waits for a lock")
		default:
			rest = append(rest, name+" cannot make the step "+s.stopped[i].Name)
		}
	}
	return fmt.Errorf("nobody can go on: %s", strings.Join(rest, ", "))
}

// abandon ends the actors whose programs have not ended.
func (s *scheduler) abandon() {
	if slices.Contains(s.ended, false) {
		s.giveUp()
	}
	for slices.Contains(s.ended, false) {
		for i, step := range s.stopped {
			if step != nil {
				s.stopped[i] = nil
				s.release[i] <- false
			}
		}
		if len(s.running()) > 0 {
			s.record(<-s.arrived)
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
