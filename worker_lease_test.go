package dibs_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// watch records what a worker's hooks saw.
type watch struct {
	mu sync.Mutex
	sight
}

type sight struct {
	finished []dibs.Attempt
	lost     []int64
	errors   map[string]int
}

func (w *watch) saw() sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	return sight{slices.Clone(w.finished), slices.Clone(w.lost), maps.Clone(w.errors)}
}

func (w *watch) on(worker *dibs.Worker) *watch {
	w.errors = map[string]int{}
	worker.Hooks.Finished = func(a dibs.Attempt) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finished = append(w.finished, a)
	}
	worker.Hooks.LeaseLost = func(job *dibs.RawJob, _ error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lost = append(w.lost, job.ID)
	}
	worker.Hooks.Error = func(call string, _ error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errors[call]++
	}
	return w
}

func TestHandlersOutliveTheirLeasesByOneExtendForAll(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			select {
			case <-time.After(time.Minute):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}))
		ids := enqueue(t, m, plain(5)...)
		time.Sleep(time.Second)
		ids = append(ids, enqueue(t, m, plain(5)...)...)
		time.Sleep(70 * time.Second)
		stopped(t, stop)
		for _, id := range ids {
			if job := m.job(id); job.State != dibs.Completed || job.Attempt != 1 {
				t.Errorf("job %d is %s after %d attempts", id, job.State, job.Attempt)
			}
		}
		// One third of 10 s: 18 calls in a minute, and one more for the later jobs.
		if n := m.count("extend"); n < 17 || n > 20 {
			t.Errorf("extended %d times", n)
		}
	})
}

func TestLostLeaseStopsTheHandlerAndWritesNothing(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), dibs.ErrLeaseLost) {
				t.Errorf("context ended because of %v", context.Cause(ctx))
			}
			return nil // a handler that takes no notice
		})
		watch := new(watch).on(w)
		stop := run(t, w)
		id := enqueue(t, m, plain(1)...)[0]
		synctest.Wait()
		m.steal(id)
		time.Sleep(m.lease/3 + time.Second)
		if job := m.job(id); job.State != dibs.Running || job.Worker != "thief" {
			t.Errorf("job is %s, held by %q", job.State, job.Worker)
		}
		if m.count("finish") != 0 {
			t.Error("an outcome was written for a lost lease")
		}
		stopped(t, stop)
		saw := watch.saw()
		if len(saw.lost) != 1 || len(saw.finished) != 1 || !errors.Is(saw.finished[0].NotWritten, dibs.ErrLeaseLost) {
			t.Errorf("hooks saw lost %v, finished %+v", saw.lost, saw.finished)
		}
	})
}

// Whatever the database does, a handler that heeds its context has returned before another
// worker can have its job.
func TestHandlerIsToldToStopBeforeItsLeaseEnds(t *testing.T) {
	needs.Race(t)
	for name, script := range map[string]func(ctx context.Context, call string) error{
		"database away": func(_ context.Context, call string) error {
			if call == "claim" {
				return nil
			}
			return errAway
		},
		"database hangs": func(ctx context.Context, call string) error {
			if call == "claim" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
		// The lease began at the database's clock in the middle of a slow claim.
		"slow claim": func(ctx context.Context, call string) error {
			switch call {
			case "claim":
				time.Sleep(4 * time.Second)
			case "extend":
				return errAway
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				m.setScript(script)
				left := make(chan time.Duration, 10)
				w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
					err := untilEnd(ctx, job)
					left <- time.Until(job.LeaseUntil) // it was never extended
					return err
				})
				w.ShutdownWait = -1
				watch := new(watch).on(w)
				stop := run(t, w)
				enqueue(t, m, plain(1)...)
				if d := <-left; d < 500*time.Millisecond || d > 5*time.Second {
					t.Errorf("the handler was told %v before its lease ended", d)
				}
				synctest.Wait()
				if saw := watch.saw(); len(saw.lost) != 1 || saw.errors["extend"] == 0 {
					t.Errorf("hooks saw lost %v, errors %v", saw.lost, saw.errors)
				}
				_ = stop()
			})
		})
	}
}

// An Extend without an answer, as over a connection that has fallen silent, ends early enough for another one, and that too.
func TestTwoExtendsWithoutAnAnswerLeaveTimeForAThird(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(ctx context.Context, call string) error {
			if call != "extend" || m.count("extend") > 2 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			select {
			case <-time.After(15 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		watch := new(watch).on(w)
		stop := run(t, w)
		id := enqueue(t, m, plain(1)...)[0]
		time.Sleep(16 * time.Second)
		stopped(t, stop)
		if job := m.job(id); job.State != dibs.Completed || job.Attempt != 1 {
			t.Errorf("the job is %s after %d attempts", job.State, job.Attempt)
		}
		if saw := watch.saw(); len(saw.lost) != 0 || saw.errors["extend"] != 2 {
			t.Errorf("hooks saw lost %v, errors %v", saw.lost, saw.errors)
		}
	})
}

func TestOutcomeIsWrittenWhenTheDatabaseComesBackWithinTheLease(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		back := time.Now().Add(8 * time.Second)
		m.setScript(func(_ context.Context, call string) error {
			if call != "claim" && time.Now().Before(back) {
				return errAway
			}
			return nil
		})
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		watch := new(watch).on(w)
		stop := run(t, w)
		ids := enqueue(t, m, plain(3)...)
		time.Sleep(11 * time.Second)
		stopped(t, stop)
		for _, id := range ids {
			if job := m.job(id); job.State != dibs.Completed || job.Attempt != 1 {
				t.Errorf("job %d is %s after %d attempts", id, job.State, job.Attempt)
			}
		}
		if watch.saw().errors["finish"] == 0 {
			t.Error("the database was never away")
		}
	})
}

func TestOutcomeIsGivenUpWhenTheLeaseEndsFirst(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		back := time.Now().Add(15 * time.Second)
		m.setScript(func(_ context.Context, call string) error {
			if call != "claim" && time.Now().Before(back) {
				return errAway
			}
			return nil
		})
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		watch := new(watch).on(w)
		enqueue(t, m, plain(1)...)
		stop := run(t, w)
		time.Sleep(14 * time.Second)
		saw := watch.saw()
		if len(saw.finished) != 1 || !errors.Is(saw.finished[0].NotWritten, dibs.ErrLeaseLost) {
			t.Errorf("hooks saw %+v", saw.finished)
		}
		time.Sleep(6 * time.Second) // the sweep finds the job, and it runs again
		if job := m.job(1); job.State != dibs.Completed || job.Attempt != 2 {
			t.Errorf("job is %s after %d attempts", job.State, job.Attempt)
		}
		stopped(t, stop)
	})
}

func TestStaleOutcomeIsRefusedAndReported(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			m.steal(1) // the process stood still for longer than the lease
			return nil
		})
		watch := new(watch).on(w)
		stop := run(t, w)
		enqueue(t, m, plain(1)...)
		synctest.Wait()
		stopped(t, stop)
		saw := watch.saw()
		if m.count("finish") != 1 || len(saw.finished) != 1 || !errors.Is(saw.finished[0].NotWritten, dibs.ErrLeaseLost) {
			t.Errorf("%d writes, hooks saw %+v", m.count("finish"), saw.finished)
		}
		if job := m.job(1); job.State != dibs.Running || job.Worker != "thief" {
			t.Errorf("job is %s, held by %q", job.State, job.Worker)
		}
	})
}

// While an outcome is being written, a lost lease does not end the attempt, and the worker
// does not extend it again: the call that writes finds out whether it is lost.
func TestLeaseLostDuringASlowWriteIsAskedForOnce(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(_ context.Context, call string) error {
			switch {
			case call == "finish":
				time.Sleep(9 * time.Second)
			case call == "extend" && m.count("extend") > 20:
				time.Sleep(time.Second) // time on the test's clock moves only in waits
			}
			return nil
		})
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			m.steal(1)
			return nil
		})
		watch := new(watch).on(w)
		stop := run(t, w)
		enqueue(t, m, plain(1)...)
		time.Sleep(10 * time.Second)
		stopped(t, stop)
		if n := m.count("extend"); n != 1 {
			t.Errorf("extended %d times", n)
		}
		saw := watch.saw()
		if len(saw.finished) != 1 || !errors.Is(saw.finished[0].NotWritten, dibs.ErrLeaseLost) {
			t.Errorf("hooks saw %+v", saw.finished)
		}
	})
}

// A worker that loses a job and claims it again holds two attempts of it for a
// while; the old one's end must not touch the new one.
func TestNewAttemptInTheSameWorkerIsNotTouchedByTheOldOne(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		release := make(chan struct{})
		w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			if job.Attempt == 1 {
				<-release // the handler ignores its context
				return errors.New("too late")
			}
			return untilEnd(ctx, job)
		})
		away := time.Now().Add(15 * time.Second)
		m.setScript(func(_ context.Context, call string) error {
			if call == "extend" && time.Now().Before(away) {
				return errAway
			}
			return nil
		})
		watch := new(watch).on(w)
		stop := run(t, w)
		enqueue(t, m, plain(1)...)
		time.Sleep(14 * time.Second)
		if job := m.job(1); job.Attempt != 2 || job.State != dibs.Running {
			t.Fatalf("job is %s after %d attempts", job.State, job.Attempt)
		}
		time.Sleep(10 * time.Second)
		close(release)
		time.Sleep(10 * time.Second)
		if job := m.job(1); job.Attempt != 2 || job.State != dibs.Running || len(job.Errors) > 0 {
			t.Errorf("job is %s after %d attempts with history %v", job.State, job.Attempt, job.Errors)
		}
		stopped(t, stop)
		saw := watch.saw()
		if len(saw.finished) != 2 || !errors.Is(saw.finished[0].NotWritten, dibs.ErrLeaseLost) || saw.finished[1].Outcome.Ending != dibs.EndRelease {
			t.Errorf("hooks saw %+v", saw.finished)
		}
	})
}

func TestResumeTakesBackWhatARestartedWorkerHeld(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		enqueue(t, m, plain(4)...)
		if _, err := m.Claim(t.Context(), dibs.ClaimRequest{Worker: "tester", N: 3}); err != nil {
			t.Fatal(err)
		}
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		w.Resume = true
		w.Concurrency = 2 // fewer places than jobs to take back
		stop := run(t, w)
		time.Sleep(20 * time.Millisecond) // calls to finish come up to 5 ms apart; the first poll comes later
		for id := range int64(4) {
			if job := m.job(id + 1); job.State != dibs.Completed || job.Attempt-job.Excused > 2 {
				t.Errorf("job %d is %s after %d attempts", job.ID, job.State, job.Attempt)
			}
		}
		stopped(t, stop)
		if m.count("resume") != 1 {
			t.Errorf("resumed %d times", m.count("resume"))
		}
	})
}
