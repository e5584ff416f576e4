package interleave

import (
	"errors"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// end checks that the database is consistent, and that every job can then be finished.
func (w *world) end() error {
	store := w.bench.Store(-1)
	if err := w.sound(store); err != nil {
		return err
	}
	if w.states[len(w.states)-1].Paused {
		if _, err := store.ChangeQueue(w.ctx, Queue, dibs.QueueChange{Paused: new(false)}.Apply); err != nil {
			return err
		}
	}
	for idle := 0; idle < 2; {
		claimed, err := w.workOff(store)
		if err != nil {
			return err
		}
		state, err := w.bench.Look(w.ctx)
		if err != nil {
			return err
		}
		if len(state.Jobs) == 0 {
			return w.allEnded(state)
		}
		if claimed > 0 {
			idle = 0
			continue
		}
		idle++ // the remaining jobs must become due when all leases have ended
		if err := w.bench.Pass(w.ctx, pastAllLeases); err != nil {
			return err
		}
	}
	state, err := w.bench.Look(w.ctx)
	return errors.Join(err, fmt.Errorf("limbo: these jobs never start: %+v", state.Jobs))
}

// workOff sweeps, claims all due jobs, and completes them.
func (w *world) workOff(store admin.Database) (claimed int, err error) {
	if _, err := store.Sweep(w.ctx); err != nil {
		return 0, err
	}
	jobs, err := store.Claim(w.ctx, dibs.ClaimRequest{Queue: Queue, Worker: "last", N: 100})
	if err != nil {
		return 0, err
	}
	state, err := w.bench.Look(w.ctx)
	if err != nil {
		return 0, err
	}
	if err := state.allSettled(); err != nil {
		return 0, err
	}
	for id, j := range state.Jobs {
		free := !state.Strict && !j.Waits && (state.Concurrency == 0 || state.running("") < state.Concurrency) &&
			(j.Group == "" || state.running(j.Group) < state.groupLimit(j.Group))
		if free && !j.claimed() && !j.RunAt.After(state.Now) {
			return 0, fmt.Errorf("limbo: job %d is due, has room and was not claimed: %+v", id, j)
		}
	}
	var outcomes []dibs.Outcome
	for _, j := range jobs {
		outcomes = append(outcomes, j.Lease().Complete(nil))
	}
	return len(jobs), store.Finish(w.ctx, outcomes)
}

// allEnded checks that each job that was ever live is final, if the queue keeps final jobs.
func (w *world) allEnded(state State) error {
	for id := range w.everLive {
		if state.Final[id] == "" && !state.Forgets {
			return fmt.Errorf("job %d is lost", id)
		}
	}
	return nil
}

func (w *world) sound(store admin.Database) error {
	found, err := store.Check(w.ctx)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("check finds: %v", found)
	}
	return err
}
