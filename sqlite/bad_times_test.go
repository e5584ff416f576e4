package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// SQL by hand may write any time of a claim. (Counts that cannot be right are refused.) Jobs with
// such times end as all others do, and no time in the statistics is negative.
func TestTimesThatCannotBeRightSpoilNoEnd(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	const bad, all = 20, 21 // the sum of 20 such times is no 64-bit integer
	for _, at := range []int64{-1 << 63, 1<<63 - 1, 1 << 62, -1 << 62, 0} {
		for name, end := range map[string]func(dibs.Lease) dibs.Outcome{
			"completed": func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) },
			"dead":      func(l dibs.Lease) dibs.Outcome { return l.Die("e") },
			"retry":     func(l dibs.Lease) dibs.Outcome { return l.Retry("e") },
			"snooze":    func(l dibs.Lease) dibs.Outcome { return l.Snooze(time.Hour) },
			"release":   dibs.Lease.Release,
			"expired":   nil,
		} {
			queue := fmt.Sprintf("%s, claimed at %d", name, at)
			if _, err := s.Enqueue(t.Context(), slices.Repeat([]dibs.NewJob{{Queue: queue, Kind: "k"}}, all)); err != nil {
				t.Fatal(err)
			}
			exec := func(statement string, args ...any) {
				t.Helper()
				if _, err := s.DB().ExecContext(t.Context(), statement, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec("update dibs_job set run_at = -62135596800000000 where queue = ?1", queue)
			jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: all, Lease: time.Hour})
			if err != nil || len(jobs) != all {
				t.Fatalf("%s: %d jobs, %v", queue, len(jobs), err)
			}
			exec("update dibs_job set claimed_at = ?1 where id between ?2 and ?3", at, jobs[0].ID, jobs[bad-1].ID)
			if end == nil {
				exec("update dibs_job set lease_until = 1 where queue = ?1", queue)
				exec("update dibs_claim set check_at = 1 where queue = ?1", queue)
				if swept, err := s.Sweep(t.Context()); err != nil || swept.Expired != all {
					t.Errorf("%s: %+v, %v", queue, swept, err)
				}
			} else {
				outcomes := make([]dibs.Outcome, all)
				for i, j := range jobs {
					outcomes[i] = end(j.Lease())
				}
				if err := s.Finish(t.Context(), outcomes); err != nil {
					t.Errorf("%s: %v", queue, err)
				}
			}
			for _, j := range []*dibs.RawJob{jobs[0], jobs[all-1]} {
				if got, err := s.Get(t.Context(), j.ID); err != nil || got.State == dibs.Running || got.Fault != "" {
					t.Errorf("%s: %+v, %v", queue, got, err)
				}
			}
			for _, q := range queueStats(t, s) {
				if q.AvgRun < 0 || q.AvgWait < 0 {
					t.Errorf("%s: jobs of %s waited %v and ran %v", queue, q.Queue, q.AvgWait, q.AvgRun)
				}
			}
		}
	}
}

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

func queueStats(t *testing.T, s *sqlite.Store) []dibs.QueueStats {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
