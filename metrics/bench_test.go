package metrics_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/metrics"
)

// BenchmarkHooks measures what the metrics cost the worker for each job, beside its handler.
func BenchmarkHooks(b *testing.B) {
	w := &dibs.Worker{Store: hanging{}}
	w.HandleRaw("k", func(context.Context, *dibs.RawJob) error { return nil })
	if err := metrics.Register(prometheus.NewRegistry(), nil, w); err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	job := &dibs.RawJob{Queue: "q", Kind: "k", RunAt: now, ClaimedAt: now.Add(time.Millisecond)}
	one := []*dibs.RawJob{job}
	a := dibs.Attempt{Job: job, Outcome: dibs.Outcome{Ending: dibs.EndCompleted}, Ran: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		w.Hooks.Claimed(one, time.Millisecond)
		w.Hooks.Finished(a)
	}
}

// BenchmarkScrape measures scrapes that share nothing with the one before, of a million jobs in 20 queues: 70 % are due,
// 10 % have a start to come, 20 % are dead. On PostgreSQL autovacuum has come by, as it does in a minute or so.
func BenchmarkScrape(b *testing.B) {
	url := pgtest.URL(b)
	if err := open.Migrate(b.Context(), open.URL(url), open.Options{}); err != nil {
		b.Fatal(err)
	}
	for name, db := range map[string]admin.Database{"sqlite": lite(b), "postgres": database(b, open.URL(url))} {
		million(b, db)
		if name == "postgres" {
			vacuum(b, url)
		}
		b.Run(name, func(b *testing.B) {
			fastest := time.Hour // the time that one scrape takes if the machine is idle
			for b.Loop() {
				begin := time.Now()
				r := prometheus.NewRegistry()
				if err := metrics.Register(r, &counting{Database: db}); err != nil {
					b.Fatal(err)
				}
				answer := httptest.NewRecorder()
				promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
				if answer.Code != 200 {
					b.Fatal(answer.Body)
				}
				fastest = min(fastest, time.Since(begin))
			}
			b.ReportMetric(float64(fastest), "fastest-ns")
		})
	}
}

func vacuum(b *testing.B, url string) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(b.Context(), "vacuum dibs.job"); err != nil {
		b.Fatal(err)
	}
}

func million(b *testing.B, db admin.Database) {
	b.Helper()
	const queues, batch = 20, 5000
	for i := range 1_000_000 / batch {
		list := make([]dibs.NewJob, batch)
		for j := range list {
			list[j] = dibs.NewJob{Queue: fmt.Sprint("q", i%queues), Kind: "k", Priority: new(j % 3)}
			if j%10 == 0 {
				list[j].Delay = time.Hour
			}
		}
		if _, err := db.Enqueue(b.Context(), list); err != nil {
			b.Fatal(err)
		}
	}
	for i := range queues {
		for range 10 {
			jobs, err := db.Claim(b.Context(), dibs.ClaimRequest{Queue: fmt.Sprint("q", i), Worker: "w", N: 1000})
			if err != nil {
				b.Fatal(err)
			}
			dead := make([]dibs.Outcome, len(jobs))
			for j, job := range jobs {
				dead[j] = job.Lease().Die("mistake")
			}
			if err := db.Finish(b.Context(), dead); err != nil {
				b.Fatal(err)
			}
		}
	}
}
