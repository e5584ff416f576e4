package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// A running job whose times or counts SQL by hand has put out of all bounds ends, and so do the jobs beside it, however
// many there are of either.
func TestTimesAndCountsThatCannotBeRightSpoilNoEnd(t *testing.T) {
	t.Parallel()
	s, url := migrated(t, postgres.Options{})
	conn := connect(t, url)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	ends := map[string]func(dibs.Lease) dibs.Outcome{
		"completed": func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) },
		"dead":      func(l dibs.Lease) dibs.Outcome { return l.Die("e") },
		"retry":     func(l dibs.Lease) dibs.Outcome { return l.Retry("e") },
		"snooze":    func(l dibs.Lease) dibs.Outcome { return l.Snooze(time.Hour) },
		"release":   dibs.Lease.Release,
		"expired":   nil,
	}
	const bad, all = 200, 201 // the sum of 200 such times or counts fits no 64-bit integer
	for _, damage := range []string{
		"claimed_at = 'infinity'", "claimed_at = '-infinity'", "claimed_at = '20000-01-01'", "claimed_at = '4000-01-01 BC'", "claimed_at = null",
		"attempt = -2147483648", "attempt = -2147483648, excused = 1", "attempt = -2000000", "attempt = 2147483647", "excused = -2147483648", "excused = 2147483647",
	} {
		for name, end := range ends {
			queue := name + " after " + damage
			if _, err := s.Enqueue(t.Context(), slices.Repeat([]dibs.NewJob{{Queue: queue, Kind: "k"}}, all)); err != nil {
				t.Fatal(err)
			}
			exec("update dibs.job set run_at = '0001-01-02Z' where queue = $1", queue)
			jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: all, Lease: time.Hour})
			if err != nil || len(jobs) != all {
				t.Fatalf("%s: %d jobs, %v", queue, len(jobs), err)
			}
			exec("update dibs.job set "+damage+" where id = any ($1)", ids(jobs[:bad]))
			if end == nil {
				exec("update dibs.job set lease_until = now() - interval '1 minute' where queue = $1", queue)
				exec("update dibs.claim set check_at = now() - interval '1 minute' where queue = $1", queue)
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
			for _, q := range statsOf(t, s) {
				if q.AvgRun < 0 || q.AvgWait < 0 {
					t.Errorf("%s: jobs of %s waited %v and ran %v", queue, q.Queue, q.AvgWait, q.AvgRun)
				}
			}
			exec("delete from dibs.job where queue = $1", queue)
		}
	}
}

func statsOf(t *testing.T, s *postgres.Store) []dibs.QueueStats {
	t.Helper()
	all, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}
