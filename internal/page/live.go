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
	// Pages show more than statistics: they are made anew so often even if those stay the same.
	liveAtLeast = 5 * time.Second
)

// live tells browsers when to load their pages again. One goroutine looks for all of them, and ends when
// none is left.
type live struct {
	mu      sync.Mutex
	clients map[chan int]bool
	n       int    // number of the last change
	stop    func() // ends the look
}

// join adds a browser. The channel gets the number of each change, or the newest of several.
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

// watch looks once a second.
func (l *live) watch(ctx context.Context, p *Page) {
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	var last look
	told := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, err := p.looks.get(ctx)
		same := err == nil && reflect.DeepEqual(now.stats, last.stats) && reflect.DeepEqual(now.queues, last.queues)
		if last = now; same && time.Since(told) < liveAtLeast {
			continue
		}
		told = time.Now()
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
