package adopt_test

import (
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// BenchmarkClaim claims and finishes rows of an adopted table, 10 at a time, on SQLite and PostgreSQL.
func BenchmarkClaim(b *testing.B) {
	for _, c := range []struct {
		name, driver string
		side         bool
	}{{"sqlite", "sqlite", false}, {"postgres", "pgx", false}, {"postgres-side", "pgx", true}} {
		b.Run(c.name, func(b *testing.B) {
			dsn := b.TempDir() + "/b.db"
			if c.driver == "pgx" {
				dsn = pgtest.URL(b)
			}
			h := newHarness(b, c.driver, dsn, c.side)
			const batch, rows = 10, 5000
			left := 0
			for b.Loop() {
				if left < batch {
					b.StopTimer()
					jobs := make([]dibs.NewJob, dibs.MaxBatch)
					for i := range jobs {
						jobs[i] = dibs.NewJob{Queue: "q", Kind: "k", Payload: 1}
					}
					for left = 0; left < rows; left += len(jobs) {
						if _, err := h.Enqueue(b.Context(), jobs); err != nil {
							b.Fatal(err)
						}
					}
					b.StartTimer()
				}
				jobs, err := h.Claim(b.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: batch})
				if err != nil || len(jobs) != batch {
					b.Fatal(len(jobs), err)
				}
				b.StopTimer()
				done := make([]dibs.Outcome, batch)
				for i, j := range jobs {
					done[i] = j.Lease().Complete(nil)
				}
				if err := h.Finish(b.Context(), done); err != nil {
					b.Fatal(err)
				}
				left -= batch
				b.StartTimer()
			}
		})
	}
}
