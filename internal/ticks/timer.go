package ticks

import (
	"sync"
	"time"
)

// Timer calls a function when the next tick comes. Stores set it to what their database says. A
// nil Timer does nothing.
type Timer struct {
	f func()

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	running sync.WaitGroup
}

// NewTimer makes a timer that is not set.
func NewTimer(f func()) *Timer { return &Timer{f: f} }

// Set has the function called after a time, instead of when it was to be called before.
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

// Unset has the function not called.
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
	t.f()
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
