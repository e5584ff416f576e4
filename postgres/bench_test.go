package postgres_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

func openBench(b *testing.B) *postgres.Store {
	ctx := context.Background()
	url := pgtest.URL(b)
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil {
		b.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func newJobs(n int, groups int) []dibs.NewJob {
	payload := []byte(`{"to":"someone@example.com","subject":"Welcome","text":"a payload of about one hundred bytes"}`)
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "bench", Kind: "mail", Payload: payload}
		if groups > 0 {
			jobs[i].Group = string(rune('a'+i%groups%26)) + string(rune('a'+i%groups/26))
		}
	}
	return jobs
}

func enqueueAll(b *testing.B, s *postgres.Store, n, chunk, groups int) {
	for at := 0; at < n; at += chunk {
		if _, err := s.Enqueue(context.Background(), newJobs(min(chunk, n-at), groups)); err != nil {
			b.Fatal(err)
		}
	}
}

// drain claims and completes until n jobs are done, with 4 claimers.
func drain(b *testing.B, s *postgres.Store, n, batch int) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for left.Load() > 0 {
				jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: "bench", Worker: "w", N: batch})
				if err != nil {
					b.Error(err)
					return
				}
				outcomes := make([]dibs.Outcome, len(jobs))
				for i, j := range jobs {
					outcomes[i] = j.Lease().Complete(nil)
				}
				if err := s.Finish(context.Background(), outcomes); err != nil {
					b.Error(err)
					return
				}
				left.Add(-int64(len(jobs)))
			}
		})
	}
	wg.Wait()
}

func perSecond(b *testing.B, n int) {
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkEnqueue inserts batches of 1,000 over one connection at a time.
func BenchmarkEnqueue(b *testing.B) {
	s := openBench(b)
	jobs := newJobs(1000, 0)
	for b.Loop() {
		if _, err := s.Enqueue(context.Background(), jobs); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, len(jobs))
}

// BenchmarkDrain claims and completes 40,000 jobs, kept for the default time.
func BenchmarkDrain(b *testing.B) {
	for _, bb := range []struct {
		name          string
		batch, groups int
	}{{"batch=100", 100, 0}, {"batch=10", 10, 0}, {"groups=600", 100, 600}} {
		b.Run(bb.name, func(b *testing.B) {
			s := openBench(b)
			const n = 40_000
			for b.Loop() {
				b.StopTimer()
				enqueueAll(b, s, n, 1000, bb.groups)
				b.StartTimer()
				drain(b, s, n, bb.batch)
			}
			perSecond(b, n)
		})
	}
}

// BenchmarkSingle enqueues, claims and completes jobs one by one from one caller.
func BenchmarkSingle(b *testing.B) {
	s := openBench(b)
	for b.Loop() {
		enqueueAll(b, s, 1, 1, 0)
		drain1(b, s)
	}
	perSecond(b, 1)
}

func drain1(b *testing.B, s *postgres.Store) {
	jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Queue: "bench", Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		b.Fatal(len(jobs), err)
	}
	if err := s.Finish(context.Background(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		b.Fatal(err)
	}
}
