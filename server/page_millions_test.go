package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// BenchmarkPagesOfMillions opens each page on databases with DIBS_PAGE_JOBS jobs, 10 million by default, a fifth of
// them dead, and with 10,000 flows of three jobs and one of 100,000. Each page is asked of a new server, which keeps
// nothing yet: -benchtime 20x. Figures: the median and the worst time until the whole page has come, in milliseconds.
func BenchmarkPagesOfMillions(b *testing.B) {
	n := 10_000_000
	if text := os.Getenv("DIBS_PAGE_JOBS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("postgres", func(b *testing.B) { benchPages(b, n, open.URL(pgtest.URL(b))) })
	b.Run("sqlite", func(b *testing.B) { benchPages(b, n, open.URL("sqlite:"+filepath.Join(b.TempDir(), "jobs.db"))) })
}

func benchPages(b *testing.B, n int, url open.URL) {
	if err := open.Migrate(b.Context(), url, open.Options{}); err != nil {
		b.Fatal(err)
	}
	db, err := open.Database(b.Context(), url, open.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() // without the consistency check, which reads all jobs
	m := &millions{B: b, Database: db}
	m.fill(n)
	m.flows()
	for _, path := range m.paths() {
		b.Run(strings.NewReplacer("/", "_").Replace(path), func(b *testing.B) {
			var times []float64
			for b.Loop() {
				s := server.New(db, server.Options{})
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Host = "localhost"
				a := httptest.NewRecorder()
				begin := time.Now()
				s.ServeHTTP(a, r)
				times = append(times, float64(time.Since(begin).Microseconds())/1000)
				if err := s.Close(); err != nil || a.Code != http.StatusOK {
					b.Fatal(a.Code, a.Body, err)
				}
			}
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2], "ms-median")
			b.ReportMetric(times[len(times)-1], "ms-worst")
		})
	}
}

// millions is a database with many jobs.
type millions struct {
	*testing.B
	admin.Database
	waiting, dead, completed, blocked int64
	// chain is a job in a flow of three. large waits for 100,000 others; dropped is a dead one of these.
	chain, large, dropped int64
}

// fill enqueues n jobs in 20 queues, half of them in one: a fifth dead, a fifth completed, 1 % scheduled, 1 % in groups.
func (m *millions) fill(n int) {
	begin := time.Now()
	for done := 0; done < n; done += dibs.MaxBatch {
		jobs := make([]dibs.NewJob, dibs.MaxBatch)
		batch := done / dibs.MaxBatch
		queue := "mail"
		if batch%2 == 1 {
			queue = fmt.Sprintf("queue-%d", batch/2%19)
		}
		for i := range jobs {
			jobs[i] = dibs.NewJob{Queue: queue, Kind: []string{"welcome", "receipt", "reminder"}[i%3], Payload: map[string]any{"to": fmt.Sprintf("customer-%d@example.com", done+i), "order": done + i}}
			if batch%5 > 1 && i%60 == 0 {
				jobs[i].Delay = time.Hour
			} else if batch%5 > 1 && i%60 == 1 {
				jobs[i].Group = fmt.Sprintf("tenant %d", done+i%1000) // a group has three or four jobs
			}
		}
		made, err := m.Enqueue(m.Context(), jobs)
		m.must(err)
		switch batch % 5 {
		case 0:
			m.dead = m.end(queue, func(l dibs.Lease, i int) dibs.Outcome {
				return l.Die([]string{"dial tcp 10.0.4.%d:25: connect: connection refused", "user %d not found", "timeout after %d s"}[i%3] + fmt.Sprint(" ", i))
			})
		case 1:
			m.completed = m.end(queue, func(l dibs.Lease, _ int) dibs.Outcome { return l.Complete(json.RawMessage(`{"sent":true}`)) })
		default:
			m.waiting, m.blocked = made[len(made)-3].ID, made[3061].ID
		}
	}
	_, err := m.Claim(m.Context(), dibs.ClaimRequest{Queue: "mail", Worker: "w", N: 50, Lease: time.Hour})
	m.must(err)
	m.Logf("filled in %s", time.Since(begin).Round(time.Second))
}

// end claims as many jobs as were just enqueued, the oldest first, and ends them.
func (m *millions) end(queue string, ending func(dibs.Lease, int) dibs.Outcome) (id int64) {
	for ended := 0; ended < dibs.MaxBatch; {
		jobs, err := m.Claim(m.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: 1000})
		m.must(err)
		if len(jobs) == 0 {
			m.Fatalf("%s has nothing to claim", queue)
		}
		outcomes := make([]dibs.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i] = ending(j.Lease(), ended+i)
		}
		m.must(m.Finish(m.Context(), outcomes))
		ended += len(jobs)
		id = jobs[len(jobs)-1].ID
	}
	return id
}

// flows enqueues 10,000 flows of three jobs, and one whose first jobs add 100,000 others, half of which then end.
func (m *millions) flows() {
	for range 10_000 {
		made, err := m.Enqueue(m.Context(), []dibs.NewJob{
			{Queue: "chains", Kind: "load", Ref: "a"}, {Queue: "chains", Kind: "convert", Ref: "b", After: []dibs.Dep{{Ref: "a"}}}, {Queue: "chains", Kind: "publish", After: []dibs.Dep{{Ref: "b"}}},
		})
		m.must(err)
		m.chain = made[1].ID
	}
	jobs := slices.Repeat([]dibs.NewJob{{Queue: "books", Kind: "split", Ref: "split"}}, 10)
	made, err := m.Enqueue(m.Context(), append(jobs, dibs.NewJob{Queue: "books", Kind: "bind", After: []dibs.Dep{{Ref: "split", On: dibs.NeedEnded}}}))
	m.must(err)
	m.large = made[10].ID
	splits, err := m.Claim(m.Context(), dibs.ClaimRequest{Queue: "books", Worker: "w", N: 10, Lease: time.Hour})
	m.must(err)
	for _, j := range splits {
		o := j.Lease().Complete(nil)
		o.Add = slices.Repeat([]dibs.NewJob{{Queue: "books", Kind: "render"}}, dibs.MaxBatch)
		m.must(m.Finish(m.Context(), []dibs.Outcome{o}))
	}
	for range 5 {
		m.dropped = m.end("books", func(l dibs.Lease, i int) dibs.Outcome {
			if i == dibs.MaxBatch-1 {
				return l.Die("no ink")
			}
			return l.Complete(nil)
		})
	}
}

func (m *millions) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *millions) paths() []string {
	return []string{
		"/", "/failures", "/failures?queue=mail", "/groups?queue=mail", "/workers", "/schedules", "/changes",
		"/queues/mail", "/queues/mail?state=running", "/queues/mail?state=blocked", "/queues/mail?state=completed", "/queues/mail?state=dead",
		"/queues/mail?state=dead&kind=receipt", "/queues/mail?state=dead&error=refused", "/queues/mail?state=dead&error=nowhere", "/queues/mail?state=dead&since=2h",
		"/queues/mail?kind=none", "/queues/mail?worker=nobody", "/queues/mail?payload=nowhere", "/queues/mail?state=dead&payload=nowhere",
		fmt.Sprintf("/jobs/%d", m.waiting), fmt.Sprintf("/jobs/%d", m.dead), fmt.Sprintf("/jobs/%d", m.completed), fmt.Sprintf("/jobs/%d", m.blocked),
		"/queues/chains", "/queues/books", fmt.Sprintf("/jobs/%d", m.chain), fmt.Sprintf("/jobs/%d", m.large), fmt.Sprintf("/jobs/%d", m.dropped),
		"/v1/stats",
	}
}
