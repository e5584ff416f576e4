package page

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"
)

const (
	liveEvery = time.Second
	// Pages are loaded again at least this often, even if the statistics stay the same, since they show more than
	// these.
	liveAtLeast = 5 * time.Second
)

// live tells browsers when to load their pages again. One goroutine looks for changes for all browsers,
// and ends when none is left.
type live struct {
	mu      sync.Mutex
	clients map[chan int]bool
	n       int    // number of the last change
	stop    func() // ends the goroutine
}

// join adds a browser. changes receives the number of each change; if the browser is slow, only the newest.
func (l *live) join(p *Page) (changes chan int, leave func()) {
	c := make(chan int, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients = map[chan int]bool{}
	}
	l.clients[c] = true
	if len(l.clients) == 1 {
		ctx, stop := context.WithCancel(p.Closing)
		p.Go(func() { l.watch(ctx, p) })
		l.stop = stop
	}
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.clients, c); len(l.clients) == 0 {
			l.stop()
		}
	}
}

// watch looks for changes once a second.
func (l *live) watch(ctx context.Context, p *Page) {
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	var last look
	eventAt := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, err := p.looks.get(ctx)
		same := err == nil && reflect.DeepEqual(now.stats, last.stats) && reflect.DeepEqual(now.queues, last.queues)
		if last = now; same && time.Since(eventAt) < liveAtLeast {
			continue
		}
		eventAt = time.Now()
		l.tell()
	}
}

func (l *live) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	for c := range l.clients {
		select {
		case <-c:
		default:
		}
		c <- l.n
	}
}

// serveLive sends an event whenever a page may have changed.
func (p *Page) serveLive(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if _, known := p.viewer(r); !known {
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	}
	changes, leave := p.live.join(p)
	defer leave()
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies of nginx would hold events back
	fmt.Fprint(w, "retry: 2000\n\n")
	for {
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case n := <-changes:
			if _, known := p.viewer(r); !known {
				return
			}
			fmt.Fprintf(w, "data: %d\n\n", n)
		case <-r.Context().Done():
			return
		case <-p.Closing.Done():
			return
		}
	}
}
