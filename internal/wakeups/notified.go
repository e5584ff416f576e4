package wakeups

import "time"

// Any role of the database can send notifications, and each makes all workers that wait for its queue claim. So
// notifications that bring no job are delayed: after trustedAtFirst of them the next is delivered only after a pause,
// which doubles from firstPause up to longestPause. A claim that finds a job ends the delay. If several processes wait
// and only one of them gets each job, the others have the pauses, too; so a pause is never longer than a job may be
// late without harm.
const (
	trustedAtFirst = 10
	firstPause     = 5 * time.Millisecond
	longestPause   = 20 * time.Millisecond
)

// trust remembers what notifications about one queue have brought.
type trust struct {
	fruitless int       // notifications in a row that have woken this process for nothing
	at        time.Time // when the last notification was delivered
	pending   bool      // a notification waits for the end of the pause
}

func (t *trust) pause() time.Duration {
	if t.fruitless < trustedAtFirst {
		return 0
	}
	return min(firstPause<<min(t.fruitless-trustedAtFirst, 10), longestPause)
}

// All stands for all queues in notifications; no queue has this name.
const All = ""

// Notified answers a notification about a queue, or about All: it calls wake now, or at the end of a pause.
func (l *Listeners) Notified(queue string, wake func()) {
	if left, ok := l.delay(queue); !ok {
		return
	} else if left > 0 {
		time.AfterFunc(left, func() { l.deliver(queue, wake) })
	} else {
		l.deliver(queue, wake)
	}
}

// delay returns how long to wait before a notification is delivered. ok is false if another notification waits
// already, or if nobody listens.
func (l *Listeners) delay(queue string) (left time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if queue != All && len(l.byQueue[queue]) == 0 {
		return 0, false
	}
	if l.trusts == nil {
		l.trusts = map[string]*trust{}
	}
	t := l.trusts[queue]
	if t == nil {
		t = &trust{}
		l.trusts[queue] = t
	}
	if t.pending {
		return 0, false
	}
	t.pending = true
	return t.pause() - time.Since(t.at), true
}

func (l *Listeners) deliver(queue string, wake func()) {
	l.mu.Lock()
	if t := l.trusts[queue]; t != nil {
		t.pending, t.fruitless, t.at = false, t.fruitless+1, time.Now()
	}
	l.mu.Unlock()
	wake()
}

// Fruitful records that work was found: notifications about the queue are trusted again.
func (l *Listeners) Fruitful(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.trusts[queue]; t != nil {
		t.fruitless = 0
	}
}
