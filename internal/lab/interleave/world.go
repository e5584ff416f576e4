package interleave

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// world is one run of a scenario, with what its checks need to know.
type world struct {
	bench     Bench
	ctx       context.Context
	names     []string
	clients   []*Client
	scheduler *scheduler

	states   []State         // the committed database, at the start and after each transaction
	everLive map[int64]bool  // ids of all jobs that were ever committed
	waits    map[string]bool // lock waits that occurred, such as "finish for cancel"
	passErr  error           // first error of Client.Pass
}

func newWorld(ctx context.Context, cancel func(), bench Bench, s *Scenario) *world {
	w := &world{bench: bench, ctx: ctx, everLive: map[int64]bool{}, waits: map[string]bool{}}
	for i, a := range s.Actors {
		w.names = append(w.names, a.Name)
		w.clients = append(w.clients, &Client{w: w, actor: i, ctx: ctx})
	}
	w.scheduler = newScheduler(w.names, func(i int) ([]int, error) { return w.bench.Blocked(ctx, i) }, cancel)
	return w
}

// beforeStep records the state of the database in the call of the chosen step.
func (w *world) beforeStep(actor int, step *Step) error {
	k := w.clients[actor].current
	now := len(w.states) - 1
	if !k.begun {
		k.begun, k.startState, k.claimState = true, now, now
	}
	adding := k.verb == "finish" && (step.Name == "enqueue" || step.Name == "inherit") // the lease was checked before
	if !adding && !step.Ends || w.bench.PerCall() {
		if k.claimState = now; !step.Timeless {
			k.clock = w.states[now].Now
		}
	}
	k.disturbed = k.disturbed || w.scheduler.disturbed(actor)
	return nil
}

// afterStep checks the newly committed state and the new answers.
func (w *world) afterStep(actor int, step *Step, k *call) error {
	if w.passErr != nil {
		return w.passErr
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
		for _, k := range c.unchecked {
			if err := w.answered(k); err != nil {
				return fmt.Errorf("%s, %s: %w", w.names[i], k.verb, err)
			}
		}
		c.unchecked = nil
	}
	return nil
}

func (w *world) passed(err error) {
	if err != nil && w.passErr == nil {
		w.passErr = err
	}
}

// play runs the scenario's programs by the choices of prefix.
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
	if err := w.bench.Start(w.ctx, w.scheduler.stop); err != nil {
		return schedule{}, err
	}
	w.states = []State{state}
	for id := range state.Jobs {
		w.everLive[id] = true
	}
	for id := range state.Final {
		w.everLive[id] = true
	}
	programs := make([]func(), len(s.Actors))
	for i, a := range s.Actors {
		programs[i] = func() { a.Do(w.clients[i], setup) }
	}
	var k *call
	var actor int
	ran, err := w.scheduler.play(w.ctx, prefix, programs, func(next int, step *Step) error {
		actor, k = next, w.clients[next].current
		return w.beforeStep(actor, step)
	}, func(step *Step, waits []wait) error {
		w.noteWaits(waits)
		return w.afterStep(actor, step, k)
	})
	w.bench.Finish()
	if err == nil {
		err = w.end()
	}
	return ran, err
}

// noteWaits records which call waits for which.
func (w *world) noteWaits(waits []wait) {
	for _, x := range waits {
		w.waits[w.clients[x.actor].current.verb+" for "+w.clients[x.holder].current.verb] = true
	}
}

// Setup prepares the database for a scenario, through the store that does not stop.
type Setup struct {
	w     *world
	store admin.Database
	err   error
	IDs   []int64        // ids of the jobs that Add enqueued
	Held  []*dibs.RawJob // jobs that Hold claimed
}

// Set changes the queue's settings.
func (s *Setup) Set(change dibs.QueueChange) {
	if s.err == nil {
		_, s.err = s.store.ChangeQueue(s.w.ctx, Queue, change.Apply)
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

// AddTogether enqueues jobs in one call.
func (s *Setup) AddTogether(jobs ...dibs.NewJob) {
	var added []dibs.Enqueued
	if s.err == nil {
		added, s.err = s.store.Enqueue(s.w.ctx, s.w.inQueue(jobs))
	}
	for _, e := range added {
		s.IDs = append(s.IDs, e.ID)
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

// Cancel cancels jobs.
func (s *Setup) Cancel(ids ...int64) {
	if s.err == nil {
		_, _, s.err = s.store.Cancel(s.w.ctx, ids)
	}
}

// inQueue sets the queue and the kind of jobs.
func (w *world) inQueue(jobs []dibs.NewJob) []dibs.NewJob {
	for i := range jobs {
		jobs[i].Queue, jobs[i].Kind = Queue, "k"
	}
	return jobs
}

// pastAllLeases is longer than any lease or delay of a scenario.
const pastAllLeases = time.Hour
