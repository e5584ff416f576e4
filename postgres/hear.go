package postgres

import "time"

// Any role of the database can send notifications, and each has the workers that wait for its queue claim. So those that
// bring no job are trusted less: after the first trustedRings the next is heard only after a pause, which doubles from
// firstPause up to longestPause. A claim that finds a job ends that. Where several processes wait, and one gets each job,
// the others pause too, so a pause is not longer than a job may start late without harm.
const (
	trustedRings = 10
	firstPause   = 5 * time.Millisecond
	longestPause = 20 * time.Millisecond
)

// hearing is what notifications for one queue have brought.
type hearing struct {
	rings   int       // how many in a row have woken this process for nothing
	at      time.Time // when the last one did
	pending bool      // one waits for the end of the pause
}

func (h *hearing) pause() time.Duration {
	if h.rings < trustedRings {
		return 0
	}
	return min(firstPause<<min(h.rings-trustedRings, 10), longestPause)
}

// hear answers a notification about a queue: it calls wake now, or at the end of a pause.
func (b *bell) hear(queue string, wake func()) {
	if left, ok := b.mayHear(queue); !ok {
		return
	} else if left > 0 {
		time.AfterFunc(left, func() { b.heardFor(queue, wake) })
	} else {
		b.heardFor(queue, wake)
	}
}

// mayHear is how long a notification waits until it is heard; ok is false if another waits already, or nobody listens.
func (b *bell) mayHear(queue string) (left time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue != allQueues && len(b.listeners[queue]) == 0 {
		return 0, false
	}
	h := b.heard[queue]
	if h == nil {
		h = &hearing{}
		b.heard[queue] = h
	}
	if h.pending {
		return 0, false
	}
	h.pending = true
	return h.pause() - time.Since(h.at), true
}

func (b *bell) heardFor(queue string, wake func()) {
	b.mu.Lock()
	if h := b.heard[queue]; h != nil {
		h.pending, h.rings, h.at = false, h.rings+1, time.Now()
	}
	b.mu.Unlock()
	wake()
}

// fruitful records that work was found: notifications about the queue are trusted again.
func (b *bell) fruitful(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.heard[queue]; h != nil {
		h.rings = 0
	}
}
