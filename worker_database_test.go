package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// onDatabases runs a test on a fresh database of each sort.
func onDatabases(t *testing.T, f func(t *testing.T, url string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, migrated(t, pgtest.URL(t)))
	})
}

func migrated(t testing.TB, url string) string {
	t.Helper()
	if err := open.Migrate(t.Context(), open.URL(url), open.Options{}); err != nil {
		t.Fatal(err)
	}
	return url
}

// database opens a store. When the test ends, the store is checked and closed.
func database(t testing.TB, url string) admin.Database {
	t.Helper()
	db, err := open.Database(t.Context(), open.URL(url), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		findings, err := db.Check(context.Background())
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
		for _, f := range findings {
			t.Errorf("consistency check: %s", f)
		}
	})
	return db
}

func get(t testing.TB, db admin.Database, id int64) *dibs.RawJob {
	t.Helper()
	job, err := db.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("job %d: %v", id, err)
	}
	return job
}

// patience is how long a test waits for an event that has to come, however slow the machine is.
const patience = 10 * time.Minute

func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

func TestShutdownUnderLoadCountsNothingAsFailed(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		ids := enqueue(t, db, plain(1200)...)
		half := make(chan struct{})
		var completed atomic.Int32
		w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
			select {
			case <-time.After(time.Duration(job.ID%7) * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			if completed.Add(1) == 300 {
				close(half)
			}
			if job.ID%100 == 0 { // some handlers run for long
				return untilEnd(ctx, job)
			}
			return nil
		})
		w.Concurrency = 100
		w.ShutdownWait = 50 * time.Millisecond
		stop := run(t, w)
		await(t, half, "300 jobs")
		stopped(t, stop)
		states := map[dibs.State]int{}
		for _, id := range ids {
			job := get(t, db, id)
			states[job.State]++
			switch {
			case len(job.Errors) > 0:
				t.Errorf("job %d has failed: %v", id, job.Errors)
			case job.State == dibs.Waiting && job.Attempt != job.Excused:
				t.Errorf("job %d is waiting, and %d of its %d attempts are excused", id, job.Excused, job.Attempt)
			}
		}
		if states[dibs.Completed] < 200 || states[dibs.Waiting] == 0 || states[dibs.Completed]+states[dibs.Waiting] != 1200 {
			t.Errorf("jobs are %v", states)
		}
	})
}

func TestCancelReachesARunningHandler(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		started, causes, finished := make(chan struct{}), make(chan error, 1), make(chan dibs.Attempt, 1)
		w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
			close(started)
			err := untilEnd(ctx, job)
			causes <- err
			return err
		})
		w.Lease = 10 * time.Second // so long that a busy machine extends it in time
		w.Hooks.Finished = func(a dibs.Attempt) { finished <- a }
		stop := run(t, w)
		id := enqueue(t, db, plain(1)...)[0]
		await(t, started, "the handler")
		if _, _, err := db.Cancel(t.Context(), []int64{id}); err != nil {
			t.Fatal(err)
		}
		if err := await(t, causes, "the end of its context"); !errors.Is(err, dibs.ErrCancelled) {
			t.Errorf("context ended because of %v", err)
		}
		await(t, finished, "its outcome")
		stopped(t, stop)
		if job := get(t, db, id); job.State != dibs.Cancelled || job.Attempt != 1 {
			t.Errorf("job is %s after %d attempts", job.State, job.Attempt)
		}
	})
}

// A handler's effects and its job's end are one transaction: both happen, or none.
func TestHandlerFinishesItsJobInItsOwnTransaction(t *testing.T) {
	needs.Race(t)
	onDatabases(t, func(t *testing.T, url string) {
		db := database(t, url)
		finished := make(chan dibs.Attempt, 2)
		w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
			err := db.InTx(ctx, func(tx dibs.Tx) error {
				if _, err := tx.Enqueue(ctx, []dibs.NewJob{{Queue: "effects", Kind: "effect"}}); err != nil {
					return err
				}
				if job.Attempt == 1 {
					return errors.New("rolled back")
				}
				return tx.Finish(ctx, []dibs.Outcome{job.Lease().Complete(nil)})
			})
			if err != nil {
				return dibs.RetryAfter(0, err)
			}
			return dibs.ErrFinished
		})
		w.Lease = time.Hour // on a busy machine a handler may last long
		w.Hooks.Finished = func(a dibs.Attempt) { finished <- a }
		stop := run(t, w)
		id := enqueue(t, db, plain(1)...)[0]
		await(t, finished, "the first attempt")
		await(t, finished, "the second attempt")
		stopped(t, stop)
		if job := get(t, db, id); job.State != dibs.Completed || job.Attempt != 2 || job.Errors[0].Error != "rolled back" {
			t.Errorf("job is %s after %d attempts with history %v", job.State, job.Attempt, job.Errors)
		}
		page, err := db.List(t.Context(), admin.Filter{Queue: "effects"})
		if err != nil || len(page.Jobs) != 1 {
			t.Errorf("%d effects, %v", len(page.Jobs), err)
		}
	})
}

func TestRestartOfTheDatabaseLosesNothing(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	url := migrated(t, server.URL())
	db := database(t, url)
	const jobs = 2000
	ids := enqueue(t, db, plain(jobs)...)
	var completed atomic.Int32
	third, all := make(chan struct{}), make(chan struct{})
	var stops []func() error
	for _, s := range []admin.Database{db, database(t, url)} {
		w := quiet(s, func(context.Context, *dibs.RawJob) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		})
		w.Name = ""
		w.Lease = 3 * time.Second
		w.Hooks.Finished = func(a dibs.Attempt) {
			if a.NotWritten != nil {
				return
			}
			switch completed.Add(1) {
			case jobs / 3:
				close(third)
			case jobs:
				close(all)
			}
		}
		stops = append(stops, run(t, w))
	}
	await(t, third, "a third of the jobs")
	server.Restart(pgtest.Immediate)
	deadline := time.Now().Add(patience)
	for left := jobs; left > 0; { // no hook is called for a Finish without an answer
		left = 0
		for _, id := range ids {
			switch job, err := db.Get(t.Context(), id); {
			case errors.Is(err, dibs.ErrUnavailable): // a connection from before the restart
				left++
			case err != nil:
				t.Fatal(err)
			case job.State != dibs.Completed:
				left++
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs are left", left)
		}
		select {
		case <-all:
		case <-time.After(200 * time.Millisecond):
		}
	}
	for _, stop := range stops {
		stopped(t, stop)
	}
}

// BenchmarkDrain works off a queue, from the first claim to the last outcome on disk.
func BenchmarkDrain(b *testing.B) {
	for _, concurrency := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("sqlite/concurrency=%d", concurrency), func(b *testing.B) {
			drain(b, database(b, "sqlite:"+filepath.Join(b.TempDir(), "jobs.db")), concurrency)
		})
		b.Run(fmt.Sprintf("postgres/concurrency=%d", concurrency), func(b *testing.B) {
			drain(b, database(b, migrated(b, pgtest.URL(b))), concurrency)
		})
	}
}

// BenchmarkStart measures the time from the call of Enqueue to the start of the handler,
// one job at a time, with an idle worker in the same process.
func BenchmarkStart(b *testing.B) {
	urls := map[string]func() string{
		"sqlite":   func() string { return "sqlite:" + filepath.Join(b.TempDir(), "jobs.db") },
		"postgres": func() string { return migrated(b, pgtest.URL(b)) },
	}
	for name, url := range urls {
		b.Run(name, func(b *testing.B) {
			db := database(b, url())
			started := make(chan struct{}, 1)
			stop := run(b, quiet(db, func(context.Context, *dibs.RawJob) error { started <- struct{}{}; return nil }))
			b.ResetTimer()
			for range b.N {
				enqueue(b, db, plain(1)...)
				<-started
			}
			b.StopTimer()
			stopped(b, stop)
		})
	}
}
