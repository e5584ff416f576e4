package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// maxWeight is the most bytes of a page with all that belongs to it, as they go over the wire without compression.
const maxWeight = 100_000

func TestPagesAreLight(t *testing.T) {
	s := furnish(t, onSQLite(t))
	url := serve(t, s, server.Options{})
	for i, path := range s.pages() {
		if !needs.AtNight() && i%3 > 0 {
			continue // all have the same style, script and icon
		}
		b := newTab(t, url) // a new tab has an empty cache
		b.open(path)
		promised[bool](b, `fetch(document.querySelector("link[rel=icon]").href).then(() => true)`)
		b.mu.Lock()
		sum, parts, seen := 0.0, "", map[string]bool{}
		for _, r := range b.requests {
			if seen[r.url] { // the page has loaded itself again
				continue
			}
			seen[r.url] = true
			sum += r.bytes
			parts += fmt.Sprintf(" %s %.0f", r.url[strings.LastIndex(r.url, "/"):], r.bytes)
		}
		b.mu.Unlock()
		if sum > maxWeight || !strings.Contains(parts, "/page.css") || !strings.Contains(parts, "/page.js") || !strings.Contains(parts, "/favicon.svg") {
			t.Errorf("%s weighs %.0f bytes:%s", path, sum, parts)
		}
		t.Logf("%s: %.0f bytes", path, sum)
	}
}

// BenchmarkFirstPaint measures how long the overview, a queue and a job take from the click to the first paint, with
// DIBS_PAGE_JOBS jobs in SQLite, a million of them by default.
func BenchmarkFirstPaint(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("DIBS_PAGE_JOBS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			b.Fatal(err)
		}
	}
	db, err := open.Database(b.Context(), open.URL("sqlite:"+filepath.Join(b.TempDir(), "jobs.db")), open.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	s := furnish(b, db)
	jobs := make([]dibs.NewJob, dibs.MaxBatch)
	for done := 0; done < n; done += len(jobs) {
		for i := range jobs {
			jobs[i] = dibs.NewJob{Queue: []string{"mail", "import", "images", "search"}[i%4], Kind: "k", Payload: map[string]int{"n": done + i}}
		}
		s.enqueue(jobs...)
	}
	url := serve(b, s, server.Options{})
	for _, path := range []string{"/", "/queues/mail", "/queues/mail?state=dead", fmt.Sprintf("/jobs/%d", s.completed)} {
		b.Run(strings.NewReplacer("/", "_", "?", "_").Replace(path), func(b *testing.B) {
			t := newTab(b, url)
			t.open(path)
			var worst, sum float64
			for b.Loop() {
				time.Sleep(1100 * time.Millisecond) // pages are kept for a second
				t.open(path)
				ms := t.firstPaint()
				sum += ms
				worst = max(worst, ms)
			}
			b.ReportMetric(sum/float64(b.N), "paint-ms")
			b.ReportMetric(worst, "worst-ms")
		})
	}
}

// firstPaint is when the page that is open was first painted, in milliseconds after its load began.
func (b *tab) firstPaint() float64 {
	b.Helper()
	return promised[float64](b, `new Promise((done) => {
		new PerformanceObserver((list) => done(list.getEntriesByName("first-contentful-paint")[0].startTime)).observe({ type: "paint", buffered: true });
	})`)
}
