package interleave

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// world is one run of a program, and what is known of it.
type world struct {
	bench   Bench
	ctx     context.Context
	names   []string
	clients []*Client
	s       *scheduler

	states []State // what was committed, after each transaction
	made   map[int64]bool
	waits  map[string]bool // which verb waited for which
	failed error           // of what cannot return one
}

func newWorld(ctx context.Context, cancel func(), bench Bench, s *Scenario) *world {
	w := &world{bench: bench, ctx: ctx, made: map[int64]bool{}, waits: map[string]bool{}}
	for i, a := range s.Actors {
		w.names = append(w.names, a.Name)
		w.clients = append(w.clients, &Client{w: w, number: i, ctx: ctx})
	}
	w.s = newScheduler(w.names, func(i int) ([]int, error) { return w.bench.Blocked(ctx, i) }, cancel)
	return w
}

// before notes what the chosen step means to the call that it belongs to.
func (w *world) before(actor int, step *Step) error {
	k := w.clients[actor].now
	now := len(w.states) - 1
	if !k.begun {
		k.begun, k.start, k.asked = true, now, now
	}
	if !step.Ends || w.bench.PerCall() {
		k.at, k.asked = w.states[now].Now, now
	}
	k.disturbed = k.disturbed || w.s.disturbed(actor)
	return nil
}

// after checks what is committed and what was answered.
func (w *world) after(actor int, step *Step, k *call) error {
	if w.failed != nil {
		return w.failed
	}
	if step.Ends {
		state, err := w.bench.Look(w.ctx)
		if err != nil {
			return err
		}
		old := w.states[len(w.states)-1]
		w.states = append(w.states, state)
		if err := w.committed(actor, k, old, state); err != nil {
			return fmt.Errorf("%s, %s: %w", w.names[actor], k.verb, err)
		}
	}
	for i, c := range w.clients {
		for _, k := range c.done {
			if err := w.answered(k); err != nil {
				return fmt.Errorf("%s, %s: %w", w.names[i], k.verb, err)
			}
		}
		c.done = nil
	}
	return nil
}

func (w *world) passed(err error) {
	if err != nil && w.failed == nil {
		w.failed = err
	}
}

// play runs the scenario's programs by the choices given.
func (w *world) play(s *Scenario, prefix []int) (schedule, error) {
	if err := w.bench.Reset(w.ctx); err != nil {
		return schedule{}, err
	}
	setup := &Setup{w: w, store: w.bench.Store(-1)}
	s.Setup(setup)
	if setup.err != nil {
		return schedule{}, fmt.Errorf("set-up: %w", setup.err)
	}
	state, err := w.bench.Look(w.ctx)
	if err != nil {
		return schedule{}, err
	}
	if err := w.bench.Start(w.ctx, w.s.stop); err != nil {
		return schedule{}, err
	}
	w.states = []State{state}
	for id := range state.Jobs {
		w.made[id] = true
	}
	for id := range state.Final {
		w.made[id] = true
	}
	programs := make([]func(), len(s.Actors))
	for i, a := range s.Actors {
		programs[i] = func() { a.Do(w.clients[i], setup) }
	}
	var k *call
	var actor int
	ran, err := w.s.play(w.ctx, prefix, programs, func(next int, step *Step) error {
		actor, k = next, w.clients[next].now
		return w.before(actor, step)
	}, func(step *Step, waits []wait) error {
		w.noteWaits(waits)
		return w.after(actor, step, k)
	})
	w.bench.Finish()
	if err == nil {
		err = w.end()
	}
	return ran, err
}

// noteWaits remembers whose call waits for whose.
func (w *world) noteWaits(waits []wait) {
	for _, x := range waits {
		w.waits[w.clients[x.actor].now.verb+" for "+w.clients[x.by].now.verb] = true
	}
}

// Setup makes what a program starts from, through a store that does not stop.
type Setup struct {
	w     *world
	store dibs.Database
	err   error
	IDs   []int64        // of the jobs added
	Held  []*dibs.RawJob // claimed
}

// Set changes the queue's settings.
func (s *Setup) Set(change dibs.QueueChange) {
	if s.err == nil {
		_, s.err = s.store.SetQueue(s.w.ctx, Queue, change)
	}
}

// Add enqueues jobs, one after the other.
func (s *Setup) Add(jobs ...dibs.NewJob) {
	for _, j := range s.w.inQueue(jobs) {
		if s.err != nil {
			return
		}
		var added []dibs.Enqueued
		if added, s.err = s.store.Enqueue(s.w.ctx, []dibs.NewJob{j}); s.err == nil {
			s.IDs = append(s.IDs, added[0].ID)
		}
	}
}

// Hold claims n jobs for the worker.
func (s *Setup) Hold(worker string, n int) {
	var jobs []*dibs.RawJob
	if s.err == nil {
		jobs, s.err = s.store.Claim(s.w.ctx, dibs.ClaimRequest{Queue: Queue, Worker: worker, N: n})
	}
	if s.err == nil && len(jobs) != n {
		s.err = fmt.Errorf("%d jobs claimed, want %d", len(jobs), n)
	}
	s.Held = append(s.Held, jobs...)
}

// Finish writes outcomes.
func (s *Setup) Finish(outcomes ...dibs.Outcome) {
	if s.err == nil {
		s.err = s.store.Finish(s.w.ctx, outcomes)
	}
}

// inQueue fills in what is the same for all.
func (w *world) inQueue(jobs []dibs.NewJob) []dibs.NewJob {
	for i := range jobs {
		jobs[i].Queue, jobs[i].Kind = Queue, "k"
	}
	return jobs
}

// long is longer than any lease or delay of a program.
const long = time.Hour
