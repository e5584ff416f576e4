package adopt

import (
	"sync"
	"time"
)

// wakers holds the channels of Wakeups. Only this process signals them.
type wakers struct {
	mu     sync.Mutex
	all    map[chan struct{}]bool
	closed bool
}

// Wakeups is dibs.Store.Wakeups. It signals when this process makes rows available, and shortly
// after a claim that may have left some. Rows that other programs insert are found by polling.
func (s *Store) Wakeups(string) (wake <-chan struct{}, stop func()) {
	w := &s.wakers
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{}, 1)
	if w.closed {
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
	if w.closed {
		return
	}
	for c := range w.all {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// later wakes the workers of this process after d.
func (w *wakers) later(d time.Duration) { time.AfterFunc(d, w.wake) }

func (w *wakers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	for c := range w.all {
		close(c)
	}
}
