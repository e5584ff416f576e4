package dibs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

func TestShutdownWaitsForHandlersThenReleasesTheirJobs(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			select {
			case <-time.After(time.Duration(job.ID) * 10 * time.Second):
				return nil
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), dibs.ErrShutdown) {
					t.Errorf("context ended because of %v", context.Cause(ctx))
				}
				return ctx.Err()
			}
		})
		stop := run(t, w)
		enqueue(t, m, plain(2)...) // one takes 10 s, the other 20 s
		time.Sleep(time.Second)
		start := time.Now()
		time.AfterFunc(time.Second, func() { _, _ = m.Enqueue(t.Context(), plain(1)) }) // too late
		stopped(t, stop)
		if took := time.Since(start); took != 15*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		if job := m.job(1); job.State != dibs.Completed {
			t.Errorf("the job that had time enough is %s", job.State)
		}
		if job := m.job(2); job.State != dibs.Waiting || job.Attempt-job.Excused != 0 || len(job.Errors) > 0 {
			t.Errorf("the interrupted job is %s, %d of %d attempts excused, history %v", job.State, job.Excused, job.Attempt, job.Errors)
		}
		if job := m.job(3); job.Attempt != 0 {
			t.Error("a job was started after the end of Run's context")
		}
	})
}

func TestShutdownReleasesJobsOfAClaimThatWasUnderWay(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(_ context.Context, call string) error {
			if call == "claim" {
				time.Sleep(time.Second)
			}
			return nil
		})
		enqueue(t, m, plain(5)...)
		stop := run(t, quiet(m, untilEnd))
		time.Sleep(time.Second / 2)
		stopped(t, stop)
		for id := range int64(5) {
			if job := m.job(id + 1); job.State != dibs.Waiting || job.Attempt != 1 || job.Excused != 1 {
				t.Errorf("job %d is %s, %d of %d attempts excused", job.ID, job.State, job.Excused, job.Attempt)
			}
		}
	})
}

func TestShutdownDoesNotTakeBackWhatItReleases(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		claims := 0
		m.setScript(func(_ context.Context, call string) error {
			if call == "claim" {
				if claims++; claims == 2 {
					time.Sleep(time.Second) // the claim looks for jobs after the shutdown began
				}
			}
			return nil
		})
		w := quiet(m, untilEnd)
		w.ShutdownWait = -1
		enqueue(t, m, plain(1)...)
		stop := run(t, w)
		time.Sleep(time.Second / 2)
		stopped(t, stop)
		if claims != 2 {
			t.Fatalf("%d claims", claims)
		}
		if job := m.job(1); job.State != dibs.Waiting || job.Attempt != 1 || job.Excused != 1 {
			t.Errorf("the job is %s, %d of %d attempts excused", job.State, job.Excused, job.Attempt)
		}
	})
}

func TestShutdownLeavesDeafHandlersBehindAndNamesThem(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		wake := make(chan struct{})
		w := quiet(m, func(_ context.Context, job *dibs.RawJob) error {
			<-wake
			return nil
		})
		w.ShutdownWait = 20 * time.Second
		stop := run(t, w)
		enqueue(t, m, plain(12)...)
		time.Sleep(time.Second)
		start := time.Now()
		err := stop()
		if took := time.Since(start); took != 23*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		want := "still running; their jobs keep their leases until these end: 1 (plain), 2 (plain), 3 (plain), 4 (plain), 5 (plain), 6 (plain), 7 (plain), 8 (plain), 9 (plain), 10 (plain)"
		if !errors.Is(err, dibs.ErrShutdown) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Run returned %v", err)
		}
		if job := m.job(1); job.State != dibs.Running || !job.LeaseUntil.After(time.Now()) {
			t.Errorf("the job of a handler that still runs is %s, its lease ends in %v", job.State, time.Until(job.LeaseUntil))
		}
		if job := m.job(11); job.State != dibs.Waiting {
			t.Errorf("a job that was never started is %s", job.State)
		}
		close(wake)
		synctest.Wait() // the handlers return, though nothing reads r.done
	})
}

func TestShutdownWithoutADatabaseEndsInTime(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		w.Lease, m.lease = time.Hour, time.Hour
		w.ShutdownWait = time.Second
		m.setScript(func(ctx context.Context, call string) error {
			if call == "claim" {
				return nil
			}
			<-ctx.Done() // no answer
			return ctx.Err()
		})
		enqueue(t, m, plain(2)...)
		stop := run(t, w)
		time.Sleep(time.Second)
		start := time.Now()
		err := stop()
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		if !errors.Is(err, dibs.ErrShutdown) || !strings.HasSuffix(err.Error(), "outcomes could not be written; their jobs run again when their leases end: 1 (plain), 2 (plain)") {
			t.Errorf("Run returned %v", err)
		}
	})
}

// stuck is a worker with two jobs and an hour's lease. The handler of one ignores its context until
// wake is closed, and the database answers nothing but claims.
func stuck(t *testing.T, m *memory) (w *dibs.Worker, wake chan struct{}) {
	t.Helper()
	wake = make(chan struct{})
	w = quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
		if job.ID == 1 {
			<-wake
		}
		return untilEnd(ctx, job)
	})
	w.Lease, m.lease = time.Hour, time.Hour
	m.setScript(func(ctx context.Context, call string) error {
		if call == "claim" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	enqueue(t, m, plain(2)...)
	return w, wake
}

// Supervisors kill a process 20 s to 30 s after they asked it to end.
func TestShutdownEndsWithinTwentySecondsWhateverHappens(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w, wake := stuck(t, m)
		stop := run(t, w)
		time.Sleep(time.Second)
		start := time.Now()
		err := stop()
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("shutdown took %v", took)
		}
		if !errors.Is(err, dibs.ErrShutdown) || !strings.Contains(err.Error(), "still running") || !strings.Contains(err.Error(), "could not be written") {
			t.Errorf("Run returned %v", err)
		}
		close(wake)
	})
}

func TestHandlersVerdictCountsDuringShutdown(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			<-ctx.Done()
			switch job.ID {
			case 1:
				return dibs.Die(errors.New("bad address"))
			case 2:
				panic("bad shutdown")
			case 3:
				return dibs.Retry(errors.New("bad address"))
			default:
				return nil
			}
		})
		w.ShutdownWait = -1
		stop := run(t, w)
		enqueue(t, m, plain(4)...)
		time.Sleep(time.Second)
		start := time.Now()
		stopped(t, stop)
		if time.Since(start) != 0 {
			t.Errorf("shutdown took %v", time.Since(start))
		}
		dead, panicked, failed, completed := m.job(1), m.job(2), m.job(3), m.job(4)
		if dead.State != dibs.Dead || panicked.State != dibs.Waiting || len(panicked.Errors) != 1 || completed.State != dibs.Completed {
			t.Errorf("jobs are %s, %s and %s", dead.State, panicked.State, completed.State)
		}
		if failed.State != dibs.Waiting || failed.Excused != 0 || len(failed.Errors) != 1 || failed.Errors[0].Error != "bad address" {
			t.Errorf("a job whose handler says that it failed is %s, %d attempts excused, history %v", failed.State, failed.Excused, failed.Errors)
		}
	})
}

func TestRunWithAnEndedContextTakesNothing(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		enqueue(t, m, plain(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := quiet(m, untilEnd).Run(ctx); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if m.count("claim") != 0 {
			t.Error("it claimed")
		}
	})
}
