package adopt

import (
	"sync"
	"time"
)

// wakers are the channels of Wakeups. They tell of what this process does; what
// others insert is found by polling.
type wakers struct {
	mu    sync.Mutex
	all   map[chan struct{}]bool
	ended bool
}

// Wakeups is dibs.Store.Wakeups. It tells of rows that this process puts back or
// makes room for, and when to look again after a claim that found some. Rows that other
// programs insert are found by polling.
func (s *Store) Wakeups(string) (wake <-chan struct{}, stop func()) {
	w := &s.wakers
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{}, 1)
	if w.ended {
		close(c)
		return c, func() {}
	}
	if w.all == nil {
		w.all = map[chan struct{}]bool{}
	}
	w.all[c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, c)
	}
}

// Wake wakes the workers of this process.
func (s *Store) Wake(string) { s.wakers.wake() }

func (w *wakers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	for c := range w.all {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// later wakes after d.
func (w *wakers) later(d time.Duration) { time.AfterFunc(d, w.wake) }

func (w *wakers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	for c := range w.all {
		close(c)
	}
}
