package sqlite_test

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// BenchmarkFlows measures how long jobs that come after others take: to enqueue, to release, and to end.
func BenchmarkFlows(b *testing.B) {
	for b.Loop() {
		s := openStore(b, sqlite.Options{})
		finish := func(n int) (took time.Duration) {
			jobs, err := s.Claim(b.Context(), dibs.ClaimRequest{N: n, Worker: "w"})
			if err != nil || len(jobs) != n {
				b.Fatal(len(jobs), err)
			}
			var all []dibs.Outcome
			for _, j := range jobs {
				all = append(all, j.Lease().Complete(nil))
			}
			began := time.Now()
			if err := s.Finish(b.Context(), all); err != nil {
				b.Fatal(err)
			}
			return time.Since(began)
		}
		jobs := []dibs.NewJob{{Kind: "k", Ref: "a"}}
		for range dibs.MaxBatch - 2 {
			jobs = append(jobs, dibs.NewJob{Kind: "k", Ref: "b", After: []dibs.Dep{{Ref: "a"}}})
		}
		jobs = append(jobs, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: "b"}}})
		began := time.Now()
		if _, err := s.Enqueue(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds()*1e3, "enqueue-ms")
		b.ReportMetric(finish(1).Seconds()*1e3, "first-end-ms")
		for {
			w, err := s.Stats(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if w[0].Blocked == 1 {
				break
			}
			if _, err := s.Sweep(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(began).Seconds()*1e3, "all-released-ms")
		b.ReportMetric(finish(len(jobs)-2).Seconds()*1e3, "9998-end-ms")
		for s.Sweep(b.Context()); ; s.Sweep(b.Context()) {
			if w, err := s.Stats(b.Context()); err != nil || w[0].Blocked == 0 {
				break
			}
		}
		b.ReportMetric(finish(1).Seconds()*1e3, "last-end-ms")
	}
}
