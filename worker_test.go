package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

var (
	errPoison = errors.New("value that this column cannot hold")
	errAway   = fmt.Errorf("dial: %w", dibs.ErrUnavailable)
)

// virtualTime runs a test on a clock that moves only while all its goroutines wait, so
// minutes pass at once and times are exact. No goroutine may outlive the test.
func virtualTime(t *testing.T, f func(t *testing.T, m *memory)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newMemory()) })
}

// quiet makes a worker with the given handler for all kinds.
func quiet(s dibs.Store, f func(context.Context, *dibs.RawJob) error) *dibs.Worker {
	w := &dibs.Worker{Store: s, Name: "tester", Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	if f != nil {
		w.HandleRaw("", f)
	}
	return w
}

// run starts a worker. stop stops it and waits for it.
func run(t testing.TB, w *dibs.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		err := <-done
		done <- err
		return err
	}
}

// stopped stops a worker, which has to shut down without an error.
func stopped(t testing.TB, stop func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Fatalf("Run returned %v", err)
	}
}

// enqueuer is a store that tests can give jobs to.
type enqueuer interface {
	dibs.Store
	Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error)
}

func enqueue(t testing.TB, s enqueuer, jobs ...dibs.NewJob) []int64 {
	t.Helper()
	es, err := s.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(es))
	for i, e := range es {
		ids[i] = e.ID
	}
	return ids
}

func plain(n int) []dibs.NewJob { return slices.Repeat([]dibs.NewJob{{Kind: "plain"}}, n) }

// untilEnd is a handler that waits for its context to end, and returns why.
func untilEnd(ctx context.Context, _ *dibs.RawJob) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestOutcomeFollowsFromWhatTheHandlerReturns(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("sending: %w", err) }
	var nilPointer *dibs.InvalidError
	cases := []struct {
		name    string
		handler func() error
		state   dibs.State
		excused int
		delay   time.Duration // delay of the next attempt
		text    string        // newest entry of the error history
	}{
		{"nil", func() error { return nil }, dibs.Completed, 0, 0, ""},
		{"an error", func() error { return errors.New("no route") }, dibs.Waiting, 0, time.Minute, "no route"},
		{"snooze", func() error { return dibs.Snooze(time.Hour) }, dibs.Waiting, 1, time.Hour, ""},
		{"a negative snooze", func() error { return dibs.Snooze(-1) }, dibs.Waiting, 1, 0, ""},
		{"wrapped snooze", func() error { return wrap(dibs.Snooze(time.Hour)) }, dibs.Waiting, 1, time.Hour, ""},
		{"retry after", func() error { return dibs.RetryAfter(time.Hour, errors.New("busy")) }, dibs.Waiting, 0, time.Hour, "busy"},
		{"retry after far too long", func() error { return dibs.RetryAfter(1<<62, nil) }, dibs.Waiting, 0, dibs.MaxDelay, "retry after 87600h0m0s"},
		{"retry", func() error { return dibs.Retry(errors.New("busy")) }, dibs.Waiting, 0, time.Minute, "busy"},
		{"die", func() error { return dibs.Die(errors.New("no such user")) }, dibs.Dead, 0, 0, "no such user"},
		{"wrapped die", func() error { return wrap(dibs.Die(errors.New("no such user"))) }, dibs.Dead, 0, 0, "sending: dead: no such user"},
		{"release", dibs.Release, dibs.Waiting, 1, 0, ""},
		{"an error that is a nil pointer", func() error { return nilPointer }, dibs.Waiting, 0, time.Minute, "<nil>"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				first := make(chan time.Time, 1)
				var runs atomic.Int32
				stop := run(t, quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
					if runs.Add(1) > 1 { // the job was due again at once
						return untilEnd(ctx, job)
					}
					first <- time.Now()
					return c.handler()
				}))
				id := enqueue(t, m, plain(1)...)[0]
				start := <-first
				synctest.Wait()
				stopped(t, stop)

				job := m.job(id)
				if job.State != c.state {
					t.Errorf("state is %s, want %s", job.State, c.state)
				}
				if job.Attempt-job.Excused != 1-c.excused {
					t.Errorf("%d of %d attempts are excused", job.Excused, job.Attempt)
				}
				if c.state == dibs.Waiting && job.RunAt.Sub(start).Round(time.Second) != c.delay {
					t.Errorf("runs again after %v, want %v", job.RunAt.Sub(start), c.delay)
				}
				var text string
				if len(job.Errors) > 0 {
					text = job.Errors[0].Error
				}
				if text != c.text {
					t.Errorf("error history has %q, want %q", text, c.text)
				}
			})
		})
	}
}

func TestPanicGoesToTheErrorHistoryWithItsStack(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { panic("out of cheese") }))
		id := enqueue(t, m, plain(1)...)[0]
		synctest.Wait()
		stopped(t, stop)
		text := m.job(id).Errors[0].Error
		message, stack, _ := strings.Cut(text, "\n\n")
		if message != "panic: out of cheese" {
			t.Errorf("error history begins with %q", message)
		}
		if !strings.HasPrefix(stack, "github.com/dibs-queue/dibs_test.TestPanic") {
			t.Errorf("stack does not begin with the function that panicked:\n%s", stack)
		}
	})
}

func TestHandlerThatEndsItsGoroutineFailsAndFreesItsPlace(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, nil)
		w.Concurrency = 1
		w.HandleRaw("exit", func(context.Context, *dibs.RawJob) error { runtime.Goexit(); return nil })
		w.HandleRaw("plain", func(context.Context, *dibs.RawJob) error { return nil })
		stop := run(t, w)
		ids := enqueue(t, m, dibs.NewJob{Kind: "exit"}, dibs.NewJob{Kind: "plain"})
		synctest.Wait()
		stopped(t, stop)
		if job := m.job(ids[0]); job.State != dibs.Waiting || !strings.Contains(job.Errors[0].Error, "Goexit") {
			t.Errorf("job is %s with history %v", job.State, job.Errors)
		}
		if job := m.job(ids[1]); job.State != dibs.Completed {
			t.Errorf("the job after it is %s", job.State)
		}
	})
}

func TestJobTimeoutFailsTheAttemptAndSaysSo(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), dibs.ErrJobTimeout) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("context ended with %v because of %v", ctx.Err(), context.Cause(ctx))
			}
			return fmt.Errorf("fetching: %w", ctx.Err())
		})
		w.JobTimeout = 42 * time.Second // longer than the lease
		stop := run(t, w)
		id := enqueue(t, m, plain(1)...)[0]
		time.Sleep(43 * time.Second)
		stopped(t, stop)
		job := m.job(id)
		if job.State != dibs.Waiting || job.Attempt != 1 || job.Errors[0].Error != "job timeout of 42s: fetching: context deadline exceeded" {
			t.Errorf("job is %s after %d attempts with history %v", job.State, job.Attempt, job.Errors)
		}
	})
}

func TestCancelledJobEndsTheContextOfItsHandler(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), dibs.ErrCancelled) {
				t.Errorf("context ended because of %v", context.Cause(ctx))
			}
			if job.ID == 2 {
				return nil // completed in spite of the cancellation
			}
			return ctx.Err()
		}))
		ids := enqueue(t, m, plain(2)...)
		synctest.Wait()
		m.cancel(ids[0])
		m.cancel(ids[1])
		time.Sleep(m.lease/3 + time.Second) // the next Extend reports the cancellation
		if a, b := m.job(ids[0]), m.job(ids[1]); a.State != dibs.Cancelled || b.State != dibs.Completed {
			t.Errorf("jobs are %s and %s", a.State, b.State)
		}
		stopped(t, stop)
	})
}

func TestErrFinishedWritesNothing(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var finished []dibs.Attempt
		w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			if err := m.Finish(ctx, []dibs.Outcome{job.Lease().Complete([]byte(`"own"`))}); err != nil {
				return err
			}
			return fmt.Errorf("transaction committed: %w", dibs.ErrFinished)
		})
		w.Hooks.Finished = func(a dibs.Attempt) { finished = append(finished, a) }
		stop := run(t, w)
		id := enqueue(t, m, plain(1)...)[0]
		synctest.Wait()
		stopped(t, stop)
		if job := m.job(id); job.State != dibs.Completed || string(job.Result) != `"own"` || m.count("finish") != 1 {
			t.Errorf("job is %s with result %s after %d writes", job.State, job.Result, m.count("finish"))
		}
		if len(finished) != 1 || finished[0].Outcome.Ending != "" || finished[0].NotWritten != nil {
			t.Errorf("hook saw %+v", finished)
		}
	})
}

func TestWorkerSetUpWrongSaysWhatIsWrong(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	m := newMemory()
	h := func(context.Context, *dibs.RawJob) error { return nil }
	set := func(f func(*dibs.Worker)) *dibs.Worker {
		w := quiet(m, h)
		f(w)
		return w
	}
	for _, c := range []struct {
		worker *dibs.Worker
		want   string
	}{
		{set(func(w *dibs.Worker) { w.Store = nil }), "worker.store: is missing"},
		{quiet(m, nil), "worker: has no handlers; register them with dibs.Handle before Run"},
		{set(func(w *dibs.Worker) { w.Concurrency = -1 }), "worker.concurrency: must be 1 to 5000, got -1"},
		{set(func(w *dibs.Worker) { w.Concurrency = 5001 }), "worker.concurrency: must be 1 to 5000, got 5001"},
		{set(func(w *dibs.Worker) { w.Lease = time.Millisecond }), "worker.lease: must be 100ms to 24h0m0s, or 0 for the queue's, got 1ms"},
		{set(func(w *dibs.Worker) { w.JobTimeout = -1 }), "worker.job_timeout: must not be negative, got -1ns"},
		{set(func(w *dibs.Worker) { w.Name, w.Resume = "", true }), "worker.resume: needs a name that stays the same when the process restarts"},
	} {
		err := c.worker.Run(t.Context())
		if !errors.Is(err, dibs.ErrInvalid) || err.Error() != c.want {
			t.Errorf("Run returned %q, want %q", err, c.want)
		}
	}
}

func TestClaimThatTheStoreCallsInvalidEndsRun(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(_ context.Context, call string) error {
			if call == "claim" {
				return &dibs.InvalidError{Field: "queue", Reason: "is 300 bytes, the limit is 255"}
			}
			return nil
		})
		var log strings.Builder
		w := quiet(m, untilEnd)
		w.Hooks.Log = slog.New(slog.NewTextHandler(&log, nil))
		if err := w.Run(t.Context()); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("Run returned %v", err)
		}
		if text := log.String(); !strings.Contains(text, "call failed") || strings.Contains(text, "repeating") {
			t.Errorf("the log is\n%s", text)
		}
	})
}
