package wakeups

import "time"

// Any role of the database can send notifications, and each makes all workers that wait for its queue claim. So
// notifications that bring no job are delayed: after trustedRings of them the next is delivered only after a pause,
// which doubles from firstPause up to longestPause. A claim that finds a job ends the delay. If several processes wait
// and only one of them gets each job, the others have the pauses, too; so a pause is never longer than a job may be
// late without harm.
const (
	trustedRings = 10
	firstPause   = 5 * time.Millisecond
	longestPause = 20 * time.Millisecond
)

// hearing remembers what notifications about one queue have brought.
type hearing struct {
	rings   int       // notifications in a row that have woken this process for nothing
	at      time.Time // when the last notification was delivered
	pending bool      // a notification waits for the end of the pause
}

func (h *hearing) pause() time.Duration {
	if h.rings < trustedRings {
		return 0
	}
	return min(firstPause<<min(h.rings-trustedRings, 10), longestPause)
}

// All stands for all queues in notifications; no queue has this name.
const All = ""

// Hear answers a notification about a queue, or about All: it calls wake now, or at the end of a pause.
func (l *Listeners) Hear(queue string, wake func()) {
	if left, ok := l.mayHear(queue); !ok {
		return
	} else if left > 0 {
		time.AfterFunc(left, func() { l.heardFor(queue, wake) })
	} else {
		l.heardFor(queue, wake)
	}
}

// mayHear returns how long to wait before a notification is delivered. ok is false if another notification waits
// already, or if nobody listens.
func (l *Listeners) mayHear(queue string) (left time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if queue != All && len(l.byQueue[queue]) == 0 {
		return 0, false
	}
	if l.heard == nil {
		l.heard = map[string]*hearing{}
	}
	h := l.heard[queue]
	if h == nil {
		h = &hearing{}
		l.heard[queue] = h
	}
	if h.pending {
		return 0, false
	}
	h.pending = true
	return h.pause() - time.Since(h.at), true
}

func (l *Listeners) heardFor(queue string, wake func()) {
	l.mu.Lock()
	if h := l.heard[queue]; h != nil {
		h.pending, h.rings, h.at = false, h.rings+1, time.Now()
	}
	l.mu.Unlock()
	wake()
}

// Fruitful records that work was found: notifications about the queue are trusted again.
func (l *Listeners) Fruitful(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.heard[queue]; h != nil {
		h.rings = 0
	}
}
