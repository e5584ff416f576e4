package ticks

import (
	"context"
	"sync"
	"time"
)

// Timer has the jobs of ticks enqueued when they come. Stores set it to what their database says. A
// nil Timer does nothing.
type Timer struct {
	ctx  context.Context
	tick func(context.Context) error

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	running sync.WaitGroup
}

// NewTimer makes a timer that is not set. It calls tick, in a context made of ctx, and again after a pause if that fails; errors
// are left to sweeps, which report them.
func NewTimer(ctx context.Context, tick func(context.Context) error) *Timer {
	return &Timer{ctx: ctx, tick: tick}
}

const (
	timeout = 10 * time.Second // how long a call may take
	pause   = time.Second
)

// Set has tick called after a time, instead of when it was to be called before.
func (t *Timer) Set(after time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(after, t.call)
		return
	}
	t.timer.Reset(after)
}

// Unset has tick not called.
func (t *Timer) Unset() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *Timer) call() {
	t.mu.Lock()
	if t.stopped {
		t.mu.Unlock()
		return
	}
	t.running.Add(1)
	t.mu.Unlock()
	defer t.running.Done()
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	if t.tick(ctx) != nil {
		t.Set(pause)
	}
}

// Stop unsets the timer for good, and waits for a call under way.
func (t *Timer) Stop() {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.running.Wait()
}
