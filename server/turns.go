package server

import (
	"context"
	"slices"
	"sync"
)

// turns shares out places among tokens. The token that holds the fewest gets the next place, so one that asks for
// many is served as often as one that asks for few.
type turns struct {
	all, each int64 // how many places there are, and how many one token may hold

	mu      sync.Mutex
	held    map[string]int64 // places held by each token
	used    int64
	waiting []*turn // in the order in which they came
}

type turn struct {
	token string
	n     int64
	ready chan struct{}
}

func newTurns(all, each int64) *turns {
	return &turns{all: all, each: each, held: map[string]int64{}}
}

// take waits for n places, and returns the function that gives them back. If there are no tokens, token is empty: then
// no places are kept for others.
func (t *turns) take(ctx context.Context, token string, n int64) (give func(), err error) {
	own := &turn{token, min(n, t.most(token)), make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, own)
	t.next()
	t.mu.Unlock()
	select {
	case <-own.ready:
	case <-ctx.Done():
		t.mu.Lock()
		i := slices.Index(t.waiting, own)
		if i >= 0 {
			t.waiting = slices.Delete(t.waiting, i, i+1)
			t.next() // requests behind it may need fewer places
		}
		t.mu.Unlock()
		if i < 0 {
			t.give(own)
		}
		return nil, ctx.Err()
	}
	return func() { t.give(own) }, nil
}

func (t *turns) most(token string) int64 {
	if token == "" {
		return t.all
	}
	return t.each
}

func (t *turns) give(own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used -= own.n
	if t.held[own.token] -= own.n; t.held[own.token] == 0 {
		delete(t.held, own.token)
	}
	t.next()
}

// next gives places to those whose turn it is. If the first needs more places than are free, the others wait:
// otherwise small requests would pass it for ever.
func (t *turns) next() {
	for {
		first := -1
		for i, w := range t.waiting {
			if t.held[w.token]+w.n <= t.most(w.token) && (first < 0 || t.held[w.token] < t.held[t.waiting[first].token]) {
				first = i
			}
		}
		if first < 0 || t.used+t.waiting[first].n > t.all {
			return
		}
		w := t.waiting[first]
		t.waiting = slices.Delete(t.waiting, first, first+1)
		t.used += w.n
		t.held[w.token] += w.n
		close(w.ready)
	}
}
