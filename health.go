package dibs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// readyWithin is how lately the database must have answered a worker that is ready. An idle
// worker calls it every 1.8 s, and a call lasts up to callTimeout.
const readyWithin = callTimeout

// Live returns nil while the worker runs and its loop goes round, also while the database is
// away and during a shutdown. Else it returns an error, at the latest when ctx ends.
// A hook that blocks stops the loop, for example. Live is for checks such as Kubernetes'
// liveness probe, and is safe to call at any time once a handler is registered.
func (w *Worker) Live(ctx context.Context) error {
	_, err := w.pulses(ctx)
	return err
}

// Ready returns nil while the worker is [Worker.Live], is not shutting down, and its database
// has done within the last 10 s what it was asked. Else its error says what is missing.
// While an adopted table refuses to have any row claimed, its worker is not ready either.
func (w *Worker) Ready(ctx context.Context) error {
	pulses, err := w.pulses(ctx)
	if err != nil {
		return err
	}
	for _, p := range pulses {
		switch since := time.Since(p.answeredAt); {
		case p.stopping:
			return ErrShutdown
		case p.answeredAt.IsZero():
			return fmt.Errorf("%w: it has not answered yet", ErrUnavailable)
		case since > readyWithin:
			return fmt.Errorf("%w: it has not answered for %v", ErrUnavailable, since.Round(time.Second))
		}
	}
	if s, ok := w.Store.(interface{ Ready() error }); ok {
		return s.Ready()
	}
	return nil
}

// StopNow makes Run begin its shutdown, if it has not begun, and wait no longer for handlers:
// it ends their contexts at once, gives back what they leave, and returns within 5 s. It is for
// a second signal. It does nothing where Run is not running.
func (w *Worker) StopNow() {
	for _, r := range w.running() {
		go func() {
			select {
			case r.asked <- func() { r.hurry(errors.New("StopNow was called")) }:
			case <-r.over:
			}
		}()
	}
}

// pulse is what a worker's loop answers to those who ask.
type pulse struct {
	stopping   bool
	answeredAt time.Time // when the database last did what it was asked; zero: not yet
}

// pulses asks the loops of all calls of Run under way.
func (w *Worker) pulses(ctx context.Context) ([]pulse, error) {
	if ctx == nil {
		return nil, &InvalidError{"ctx", "is nil; give the context whose end ends the wait for an answer"}
	}
	var all []pulse
	for _, r := range w.running() {
		answer := make(chan pulse, 1)
		select {
		case r.asked <- func() { answer <- pulse{r.shutdown.stage != working, r.answeredAt} }:
			all = append(all, <-answer)
		case <-r.over:
		case <-ctx.Done():
			return nil, fmt.Errorf("the worker does not answer: %w", context.Cause(ctx))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the worker is not running")
	}
	return all, nil
}

// runs are the calls of Run of one worker.
type runs struct {
	mu  sync.Mutex
	all map[*run]bool
}

// add returns a function that takes the run away again.
func (s *runs) add(r *run) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[r] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, r)
	}
}

func (w *Worker) running() []*run {
	if w == nil || w.runs == nil {
		return nil
	}
	w.runs.mu.Lock()
	defer w.runs.mu.Unlock()
	return slices.Collect(maps.Keys(w.runs.all))
}
