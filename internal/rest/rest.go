// Package rest spaces out claims that read much and find nothing: those for some kinds of jobs, in a queue where
// many jobs of other kinds are due. Without it each wake-up for one of these would cost a look at all of them.
package rest

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// afterWake is the pause between two such claims, as a multiple of the time that one takes, where wake-ups ask for them.
	afterWake = 10
	// unasked is the same where nothing has happened in the queue, and a worker only looks now and then.
	unasked = 50
	// longestAfterWake and longestUnasked bound the pauses: a claim may have taken long because its process was stopped or
	// its machine stood still, and not because it read much.
	longestAfterWake = time.Second
	longestUnasked   = 5 * time.Second
	// worth is the shortest claim that is followed by a pause. A pause for a shorter one would end before the next poll.
	worth = 5 * time.Millisecond
	// maxScans bounds the memory for queues and sets of kinds.
	maxScans = 1000
)

// Claims are the last claims of one store that read much and found nothing, by queue and kinds.
type Claims struct {
	mu   sync.Mutex
	last map[string]scan
}

type scan struct {
	began time.Time
	took  time.Duration
}

func key(queue string, kinds []string) string {
	sorted := slices.Sorted(slices.Values(kinds))
	return queue + "\x00" + strings.Join(sorted, "\x00")
}

// Note records a claim for these kinds: when it began, how long it read, and whether it found jobs.
func (c *Claims) Note(queue string, kinds []string, began time.Time, took time.Duration, found bool) {
	if len(kinds) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := key(queue, kinds)
	if found || took < worth {
		delete(c.last, k)
		return
	}
	if c.last == nil || len(c.last) >= maxScans {
		c.last = map[string]scan{}
	}
	c.last[k] = scan{began: began, took: took}
}

// Left is how long a claim for these kinds should wait; rungAt is when the queue's workers were last woken, and woken
// reports whether that was after the last claim began: then a claim has to follow as soon as it may.
func (c *Claims) Left(queue string, kinds []string, now, rungAt time.Time) (left time.Duration, woken bool) {
	if len(kinds) == 0 {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.last[key(queue, kinds)]
	if !ok {
		return 0, false
	}
	pause := min(unasked*s.took, longestUnasked)
	if woken = !rungAt.Before(s.began); woken {
		pause = min(afterWake*s.took, longestAfterWake)
	}
	return max(0, s.began.Add(s.took+pause).Sub(now)), woken
}
