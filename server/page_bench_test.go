package server_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
)

// BenchmarkDrainBesidePages claims and finishes jobs, 100 a call by two clients, alone and beside 50 open pages, which
// follow what happens as the script of the pages does. The pages' clients run on the same machine. b.N is how often
// each is done, in turn: -benchtime 20x. Figures: the medians of jobs/s, and of how much less each pair has beside the pages.
func BenchmarkDrainBesidePages(b *testing.B) {
	const jobs, pages = 400_000, 50
	url := open.URL(pgtest.URL(b))
	if err := open.Migrate(b.Context(), url, open.Options{}); err != nil {
		b.Fatal(err)
	}
	l := library{database(b, url)}
	web := serve(b, database(b, url))
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 2 * pages
	drain := func() float64 {
		for range jobs / 1000 {
			l.enqueue(b, 1000)
		}
		begin := time.Now()
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				for range jobs / 200 {
					l.work(b, 100)
				}
			})
		}
		clients.Wait()
		return jobs / time.Since(begin).Seconds()
	}
	drain()
	var alone, beside, less []float64
	for i := range b.N {
		one := func(pages int) float64 {
			ctx, leave := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for n := range pages {
				all.Go(func() {
					lookOn(ctx, b, web, []string{"/", "/queues/default", "/queues/default?state=completed", "/workers", "/failures"}[n%5])
				})
			}
			defer all.Wait()
			defer leave()
			time.Sleep(2 * time.Second) // wait until all pages are open
			return drain()
		}
		a, p := 0.0, 0.0
		if i%2 == 0 {
			a = one(0)
		}
		p = one(pages)
		if i%2 == 1 {
			a = one(0)
		}
		b.Logf("%.0f jobs/s alone, %.0f beside %d pages: %.1f %% less", a, p, pages, 100*(1-p/a))
		alone, beside, less = append(alone, a), append(beside, p), append(less, 100*(1-p/a))
	}
	for name, list := range map[string][]float64{"jobs/s-alone": alone, "jobs/s-beside": beside, "%-less": less} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
}

// lookOn has a page open: it loads the page whenever the server says that something has changed.
func lookOn(ctx context.Context, b *testing.B, web, path string) {
	get := func(path string) io.ReadCloser {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, web+path, nil)
		if err != nil {
			b.Error(err)
			return nil
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Encoding", "gzip") // the answer stays packed: browsers unpack it elsewhere
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return nil
		}
		if a.StatusCode != http.StatusOK {
			b.Errorf("%s: %s", path, a.Status)
		}
		return a.Body
	}
	events := get("/live")
	if events == nil {
		return
	}
	defer events.Close()
	for lines := bufio.NewScanner(events); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "data:") {
			continue
		}
		if page := get(path); page != nil {
			_, _ = io.Copy(io.Discard, page) // the stream ends when ctx ends
			_ = page.Close()
		}
	}
}
