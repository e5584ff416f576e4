// Package wakeups wakes the workers of a process that wait for work in queues.
package wakeups

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// Listeners are those of one store. The zero value is ready for use.
type Listeners struct {
	Added func() // called after a listener was added; may be nil

	mu      sync.Mutex
	byQueue map[string]map[chan struct{}]bool
	wokenAt map[string]time.Time // when the listeners of a queue were last woken
	trusts  map[string]*trust    // what notifications about each queue have brought
}

// Add returns a channel that receives when the queue is woken: see dibs.Store.Wakeups. stop ends it.
func (l *Listeners) Add(queue string) (wake <-chan struct{}, stop func()) {
	queue = cmp.Or(queue, dibs.DefaultQueue)
	c := make(chan struct{}, 1)
	l.mu.Lock()
	if l.byQueue == nil {
		l.byQueue, l.wokenAt = map[string]map[chan struct{}]bool{}, map[string]time.Time{}
	}
	if l.byQueue[queue] == nil {
		l.byQueue[queue] = map[chan struct{}]bool{}
	}
	l.byQueue[queue][c] = true
	l.mu.Unlock()
	if l.Added != nil {
		l.Added()
	}
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.byQueue[queue], c)
		if len(l.byQueue[queue]) == 0 { // remember nothing: programs may wait for any number of queues, one after the other
			delete(l.byQueue, queue)
			delete(l.wokenAt, queue)
			delete(l.trusts, queue)
		}
	}
}

// Wake wakes the listeners of some queues.
func (l *Listeners) Wake(queues ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range queues {
		listeners := l.byQueue[q]
		if len(listeners) > 0 {
			l.wokenAt[q] = time.Now()
		}
		for c := range listeners {
			select {
			case c <- struct{}{}:
			default: // the listener has not received the last wake-up yet
			}
		}
	}
}

// WakeAfter wakes the listeners of a queue after a time.
func (l *Listeners) WakeAfter(queue string, d time.Duration) {
	time.AfterFunc(d, func() { l.Wake(queue) })
}

// When rates hold up jobs, the next claim is made when the jobs may start, if that is within far: workers poll more
// often than that. It is made no sooner than after near, as a claim takes many jobs at once.
const (
	near = 3 * time.Millisecond
	far  = 2 * time.Second
)

// WakeHeld wakes the listeners of a queue whose rates hold jobs up for a time, if that is short enough for it to be of use.
func (l *Listeners) WakeHeld(queue string, d time.Duration) {
	if d <= far {
		l.WakeAfter(queue, max(d, near))
	}
}

// LastWoken is when the listeners of a queue were last woken; zero if it has none.
func (l *Listeners) LastWoken(queue string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wokenAt[queue]
}

// Queues lists the queues that have listeners.
func (l *Listeners) Queues() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.byQueue))
}
