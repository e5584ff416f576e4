package dibs_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/crash"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Run returns while claims, extends and finishes are under way. Whatever ShutdownWait
// is, no job is left to wait for the end of its lease, and none has failed.
func TestShutdownAtAnyMomentLeavesNothingRunning(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		const jobs = 1000
		enqueue(t, db, plain(jobs)...)
		r := crash.Random(t)
		for round := 0; len(live(t, db, "")) > 0; round++ {
			w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
				select {
				case <-time.After(time.Duration(job.ID%5) * time.Millisecond):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			w.Concurrency = 1 + r.IntN(30)
			w.ShutdownWait = []time.Duration{-1, time.Millisecond, time.Minute}[r.IntN(3)]
			stop := run(t, w)
			time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
			stopped(t, stop)
			for _, job := range live(t, db, dibs.Running) {
				t.Errorf("round %d, wait %v: job %d is running, until %v from its claim on", round, w.ShutdownWait, job.ID, job.LeaseUntil.Sub(job.ClaimedAt))
			}
			if t.Failed() {
				return
			}
		}
		page, err := db.List(t.Context(), admin.Filter{State: dibs.Completed, Limit: 1000})
		if err != nil || len(page.Jobs) != jobs {
			t.Fatalf("%d jobs were completed, %v", len(page.Jobs), err)
		}
		for _, job := range page.Jobs {
			if job.Attempt-job.Excused != 1 || len(job.Errors) > 0 {
				t.Errorf("job %d was completed in attempt %d, %d excused, history %v", job.ID, job.Attempt, job.Excused, job.Errors)
			}
		}
	})
}

// live lists up to 1000 jobs that are not final.
func live(t testing.TB, db admin.Database, state dibs.State) []*dibs.RawJob {
	t.Helper()
	page, err := db.List(t.Context(), admin.Filter{State: state, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Jobs
}

// With leases of 100 ms, any pause of the machine loses some, and on a busy machine a job
// may lose all its attempts. Even so no job is completed twice, and none is left.
func TestShortestLeasesLoseNothing(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		const jobs, attempts = 300, 5
		var mu sync.Mutex
		completed := map[int64]int{}
		handler := func(ctx context.Context, job *dibs.RawJob) error {
			select {
			case <-time.After(time.Duration(job.ID%4) * dibs.MinLease):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		db := database(t, url)
		ids := enqueue(t, db, slices.Repeat([]dibs.NewJob{{Kind: "k", MaxAttempts: attempts}}, jobs)...)
		for range 2 {
			w := quiet(database(t, url), handler)
			w.Name, w.Lease, w.Concurrency = "", dibs.MinLease, 30
			w.Hooks.Finished = func(a dibs.Attempt) {
				if a.NotWritten == nil && a.Outcome.Ending == dibs.EndCompleted {
					mu.Lock()
					defer mu.Unlock()
					completed[a.Job.ID]++
				}
			}
			stop := run(t, w)
			defer stopped(t, stop)
		}
		for deadline := time.Now().Add(patience); len(live(t, db, "")) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d jobs are left", len(live(t, db, "")))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			job, n := get(t, db, id), completed[id]
			lost := job.State == dibs.Dead && job.Attempt-job.Excused == attempts
			if n > 1 || job.State != dibs.Completed && (n > 0 || !lost) {
				t.Errorf("job %d was completed %d times, is %s after %d attempts, history %v", id, n, job.State, job.Attempt, job.Errors)
			}
		}
	})
}

// A handler that returns ErrFinished without having finished its job leaves it claimed:
// the job runs again when its lease has ended, and the attempt counts.
func TestErrFinishedWithoutAFinishIsNoLimbo(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		starts := make(chan time.Time, 100)
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			starts <- time.Now()
			return dibs.ErrFinished
		})
		m.lease = 5 * time.Second
		stop := run(t, w)
		id := enqueue(t, m, plain(1)...)[0]
		last := <-starts
		for attempt := range 5 {
			start := <-starts
			if again := start.Sub(last); again < m.lease || again > m.lease+2*time.Second {
				t.Errorf("attempt %d came %v after the one before", attempt+2, again)
			}
			last = start
		}
		stopped(t, stop)
		if job := m.job(id); job.Attempt != 6 || job.Excused != 0 {
			t.Errorf("job has %d attempts, %d excused", job.Attempt, job.Excused)
		}
	})
}
