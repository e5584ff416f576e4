package dibs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// An operator gives a queue a timeout: handlers that hang end without a new release of the program.
func TestAQueuesTimeoutEndsHandlersThatHang(t *testing.T) {
	needs.Race(t)
	for _, c := range []struct {
		name           string
		before, during time.Duration // the timeout when the job is claimed, and 30 s later
		own            time.Duration // Worker.JobTimeout
		least, most    time.Duration // how long the handler runs
		want           string        // the beginning of the error
	}{
		{"at its end, not at the next extension", 40 * time.Second, 40 * time.Second, 0, 40 * time.Second, 41 * time.Second, "job timeout of the queue: it has run for 40."},
		{"set while it runs, at the next extension", 0, 40 * time.Second, 0, 40 * time.Second, 45 * time.Second, "job timeout of the queue: it has run for 4"},
		{"shortened while it runs, at the next extension", 2 * time.Hour, 10 * time.Second, 0, 30 * time.Second, 34 * time.Second, "job timeout of the queue: it has run for 3"},
		{"lengthened while it runs", 40 * time.Second, 50 * time.Second, 0, 50 * time.Second, 54 * time.Second, "job timeout of the queue: it has run for 5"},
		{"the worker's own is shorter", 40 * time.Second, 40 * time.Second, 35 * time.Second, 35 * time.Second, 36 * time.Second, "job timeout of 35s: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				m.jobTimeout = c.before
				var ran time.Duration // the test reads it after the worker has ended
				w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
					start := time.Now()
					<-ctx.Done()
					ran = time.Since(start)
					if !errors.Is(context.Cause(ctx), dibs.ErrJobTimeout) {
						t.Errorf("the context ended because of %v", context.Cause(ctx))
					}
					return ctx.Err()
				})
				w.JobTimeout = c.own
				stop := run(t, w)
				id := enqueue(t, m, plain(1)...)[0]
				time.Sleep(30 * time.Second)
				m.setJobTimeout(c.during)
				time.Sleep(c.most - 30*time.Second + time.Millisecond)
				synctest.Wait()
				job := m.job(id)
				stopped(t, stop)
				if job.State != dibs.Waiting || job.Attempt-job.Excused != 1 || !strings.HasPrefix(job.Errors[0].Error, c.want) {
					t.Errorf("the job is %s after %d counted attempts with history %v", job.State, job.Attempt-job.Excused, job.Errors)
				}
				if ran < c.least || ran > c.most {
					t.Errorf("the handler ran for %v, want %v to %v", ran, c.least, c.most)
				}
			})
		})
	}
}

// A timeout costs no call that would not be made anyway, as long as handlers return before it.
func TestAQueuesTimeoutCostsNothingBeforeItsEnd(t *testing.T) {
	needs.Race(t)
	calls := map[time.Duration]int{}
	for _, timeout := range []time.Duration{0, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.jobTimeout = timeout
				stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { time.Sleep(55 * time.Second); return nil }))
				enqueue(t, m, plain(20)...)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				stopped(t, stop)
				calls[timeout] = m.count("extend")
			})
		})
	}
	if calls[0] == 0 || calls[0] != calls[time.Minute] {
		t.Errorf("%d extensions without a timeout, %d with one", calls[0], calls[time.Minute])
	}
}

// Handlers that reach their timeouts one after the other do not each cost an extension of all leases.
func TestTimeoutsOfManyJobsShareExtensions(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.jobTimeout = 11 * time.Second
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error { <-ctx.Done(); return dibs.Die(ctx.Err()) })
		w.Concurrency = 200
		stop := run(t, w)
		for range 200 { // they are claimed within 2 s
			enqueue(t, m, plain(1)...)
			time.Sleep(10 * time.Millisecond)
		}
		before := m.count("extend")
		time.Sleep(12 * time.Second)
		synctest.Wait()
		n := m.count("extend") - before
		stopped(t, stop)
		if n > 20 {
			t.Errorf("200 jobs reached their timeouts within 2 s, and %d extensions were made", n)
		}
	})
}

// Nothing can end a handler that does not heed its context: its job stays its own, so that it does
// not run twice, and the log says so each time that it has gone on for ten times as long.
func TestAHandlerThatIgnoresItsTimeoutKeepsItsJobAndIsLogged(t *testing.T) {
	needs.Race(t)
	for name, set := range map[string]func(*memory, *dibs.Worker){
		"the queue's":  func(m *memory, _ *dibs.Worker) { m.jobTimeout = 30 * time.Second },
		"the worker's": func(_ *memory, w *dibs.Worker) { w.JobTimeout = 30 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				end := make(chan struct{})
				w := quiet(m, func(context.Context, *dibs.RawJob) error { <-end; return nil })
				var log bytes.Buffer // only the worker's goroutine writes it
				w.Hooks.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				set(m, w)
				stop := run(t, w)
				id := enqueue(t, m, plain(1)...)[0]
				time.Sleep(30*time.Second + 15*m.lease)
				synctest.Wait()
				n, attempt := strings.Count(log.String(), "it does not heed its context"), m.job(id).Attempt
				close(end)
				stopped(t, stop)
				if n != 2 || attempt != 1 {
					t.Errorf("logged %d times, and claimed %d times:\n%s", n, attempt, log.String())
				}
				if job := m.job(id); job.State != dibs.Completed {
					t.Errorf("the job is %s", job.State)
				}
			})
		})
	}
}

// failsOnce is a store of which the first Extend fails.
type failsOnce struct {
	*memory
	failed bool
}

func (f *failsOnce) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	if !f.failed {
		f.failed = true
		return dibs.Extended{}, dibs.ErrUnavailable
	}
	return f.memory.Extend(ctx, leases, d)
}

// An extension that fails when a queue's timeout has passed is made again soon, and not only after a third of the lease.
func TestATimeoutIsAskedForAgainAfterAnError(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.jobTimeout = time.Second
		var ran time.Duration // the test reads it after the worker has ended
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			start := time.Now()
			<-ctx.Done()
			ran = time.Since(start)
			return ctx.Err()
		})
		w.Store = &failsOnce{memory: m}
		stop := run(t, w)
		enqueue(t, m, plain(1)...)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		stopped(t, stop)
		if ran < time.Second || ran > 2*time.Second { // a third of its lease is 3.3 s
			t.Errorf("the handler ran for %v", ran)
		}
	})
}
