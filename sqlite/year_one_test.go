package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Many jobs that SQL by hand has made due in the first year can be claimed, and no sum or age of
// theirs is too large.
func TestManyJobsOfYearOne(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	const each, times = 4000, 6 // 24,000 times 28 years is more than a 64-bit integer has of microseconds
	for i := range times {
		if _, err := s.Enqueue(t.Context(), slices.Repeat([]dibs.NewJob{{Kind: "k"}}, each)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().ExecContext(t.Context(), "update dibs_job set run_at = -62135596800000000 where token is null"); err != nil {
			t.Fatal(err)
		}
		stats := queueStats(t, s)
		if stats[0].OldestAge < 200*365*24*time.Hour {
			t.Errorf("the oldest is %v old", stats[0].OldestAge)
		}
		for claimed := 0; claimed < each; {
			jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1000, Lease: time.Hour})
			if err != nil || len(jobs) == 0 {
				t.Fatalf("round %d: %d jobs, %v", i, len(jobs), err)
			}
			claimed += len(jobs)
		}
	}
	if wait := queueStats(t, s)[0].AvgWait; wait <= 0 || wait > 29*365*24*time.Hour {
		t.Errorf("they waited %v", wait)
	}
	minutes, err := s.History(t.Context(), []string{"default"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range minutes {
		if m.AvgWait < 0 {
			t.Errorf("%+v", m)
		}
	}
}

func queueStats(t *testing.T, s *sqlite.Store) []admin.QueueStats {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
