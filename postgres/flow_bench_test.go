package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// BenchmarkFlows enqueues flows of three shapes, and measures how long after the end that they wait for the
// last followers can be claimed.
func BenchmarkFlows(b *testing.B) {
	const n = 9_999
	ctx := context.Background()
	fanOut := append([]dibs.NewJob{{Queue: "bench", Kind: "k", Ref: "first"}}, newJobs(n, 0, 0)...)
	for i := range n {
		fanOut[i+1].After = []dibs.Dep{{Ref: "first"}}
	}
	fanIn := newJobs(n, 0, 0)
	for i := range fanIn {
		fanIn[i].Ref = "page"
	}
	fanIn = append(fanIn, dibs.NewJob{Queue: "bench", Kind: "k", After: []dibs.Dep{{Ref: "page"}}})
	b.Run("fan-out", func(b *testing.B) {
		s := openBench(b)
		var enqueued, released time.Duration
		for range b.N {
			began := time.Now()
			enqueueFlow(b, s, fanOut)
			enqueued += time.Since(began)
			drain(b, s, 1, 1)
			began = time.Now()
			for got := 0; got < n; {
				jobs := claimSome(ctx, b, s, n)
				if got += len(jobs); got == n {
					released += time.Since(began)
				}
				complete(ctx, b, s, jobs)
			}
		}
		perRun(b, enqueued, "enqueue-ms")
		perRun(b, released, "release-ms")
	})
	b.Run("fan-in", func(b *testing.B) {
		s := openBench(b)
		var enqueued, ends, released time.Duration
		for range b.N {
			began := time.Now()
			enqueueFlow(b, s, fanIn)
			enqueued += time.Since(began)
			began = time.Now()
			drain(b, s, n, 100)
			ends += time.Since(began)
			began = time.Now()
			drain(b, s, 1, 1)
			released += time.Since(began)
		}
		perRun(b, enqueued, "enqueue-ms")
		perRun(b, ends, "ends-ms")
		perRun(b, released, "last-ms")
	})
	b.Run("chain", benchChain)
}

func benchChain(b *testing.B) {
	ctx := context.Background()
	s := openBench(b)
	const hops = 100
	chain := newJobs(hops, 0, 0)
	for i := range chain {
		chain[i].Ref = group(i)
		if i > 0 {
			chain[i].After = []dibs.Dep{{Ref: group(i - 1)}}
		}
	}
	var took time.Duration
	for range b.N {
		enqueueFlow(b, s, chain)
		began := time.Now()
		for range hops {
			claimNext(ctx, b, s)
		}
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/1000/float64(hops*b.N), "hop-ms")
}

func enqueueFlow(b *testing.B, s *postgres.Store, jobs []dibs.NewJob) {
	b.Helper()
	if _, err := s.Enqueue(context.Background(), jobs); err != nil {
		b.Fatal(err)
	}
}

func claimSome(ctx context.Context, b *testing.B, s *postgres.Store, n int) []*dibs.RawJob {
	b.Helper()
	jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "bench", Worker: "w", N: n})
	if err != nil {
		b.Fatal(err)
	}
	return jobs
}

func complete(ctx context.Context, b *testing.B, s *postgres.Store, jobs []*dibs.RawJob) {
	b.Helper()
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
	}
	if err := s.Finish(ctx, outcomes); err != nil {
		b.Fatal(err)
	}
}

// claimNext claims and completes the next job of a chain as soon as it can be claimed.
func claimNext(ctx context.Context, b *testing.B, s *postgres.Store) {
	b.Helper()
	for {
		if jobs := claimSome(ctx, b, s, 1); len(jobs) > 0 {
			complete(ctx, b, s, jobs)
			return
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func perRun(b *testing.B, took time.Duration, unit string) {
	b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), unit)
}
