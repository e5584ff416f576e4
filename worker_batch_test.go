package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// sizes are the sizes of batches.
type sizes struct {
	mu   sync.Mutex
	list []int
}

func (s *sizes) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.list)
}

// batchOf registers a batch handler that notes the size of each batch.
func batchOf(w *dibs.Worker, most int, wait time.Duration, s *sizes, f func(jobs []*dibs.Job[int]) []error) {
	dibs.HandleBatch(w, "k", most, wait, func(_ context.Context, jobs []*dibs.Job[int]) []error {
		s.mu.Lock()
		s.list = append(s.list, len(jobs))
		s.mu.Unlock()
		return f(jobs)
	})
}

func numbered(n int) []dibs.NewJob {
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Kind: "k", Payload: fmt.Sprint(i)}
	}
	return jobs
}

func TestABatchHasAnOutcomeForEachJob(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var seen sizes
		w := quiet(m, nil)
		batchOf(w, 4, time.Second, &seen, func(jobs []*dibs.Job[int]) []error {
			errs := make([]error, len(jobs))
			for i, job := range jobs {
				if err := job.SetResult(job.Payload * 10); err != nil {
					t.Error(err)
				}
				if job.Payload == 2 {
					errs[i] = dibs.Die(errBusy)
				}
			}
			return errs
		})
		stop := run(t, w)
		ids := enqueue(t, m, numbered(6)...)
		synctest.Wait()
		if seen.String() != "[4]" {
			t.Errorf("at once came batches of %v, want one of 4", &seen)
		}
		time.Sleep(1100 * time.Millisecond)
		stopped(t, stop)
		if seen.String() != "[4 2]" {
			t.Errorf("batches of %v, want 4 and, a second later, 2", &seen)
		}
		for i, id := range ids {
			job, want := m.job(id), dibs.Completed
			if i == 2 {
				want = dibs.Dead
			}
			if job.State != want || i != 2 && string(job.Result) != fmt.Sprint(i*10) {
				t.Errorf("job %d is %s with result %s", i, job.State, job.Result)
			}
		}
	})
}

func TestABatchThatFailsFailsAllItsAttempts(t *testing.T) {
	needs.Race(t)
	for name, test := range map[string]struct {
		f    func([]*dibs.Job[int]) []error
		want string
	}{
		"panics":          {func([]*dibs.Job[int]) []error { panic("oops") }, "panic: oops"},
		"too few errors":  {func([]*dibs.Job[int]) []error { return make([]error, 2) }, "the handler of a batch of 3 jobs returned 2 errors"},
		"ends its thread": {func([]*dibs.Job[int]) []error { runtime.Goexit(); return nil }, "handler ended its goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				var seen sizes
				w := quiet(m, nil)
				batchOf(w, 3, time.Second, &seen, test.f)
				stop := run(t, w)
				ids := enqueue(t, m, numbered(3)...)
				synctest.Wait()
				time.Sleep(100 * time.Millisecond)
				stopped(t, stop)
				for _, id := range ids {
					if job := m.job(id); len(job.Errors) == 0 || !strings.HasPrefix(job.Errors[0].Error, test.want) {
						t.Errorf("the job is %s with history %v, want %q", job.State, job.Errors, test.want)
					}
				}
			})
		})
	}
}

// TestACancelledJobLeavesItsBatch cancels a job while the batch gathers, and another one while
// it is handled.
func TestACancelledJobLeavesItsBatch(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var handled []int
		var ended error
		w := quiet(m, nil)
		m.lease = time.Second
		dibs.HandleBatch(w, "k", 10, 2*time.Second, func(ctx context.Context, jobs []*dibs.Job[int]) []error {
			for _, job := range jobs {
				handled = append(handled, job.Payload)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			ended = context.Cause(ctx)
			return nil
		})
		stop := run(t, w)
		ids := enqueue(t, m, numbered(3)...)
		synctest.Wait()
		m.cancel(ids[1])
		time.Sleep(3 * time.Second)
		m.cancel(ids[2])
		time.Sleep(5 * time.Second)
		stopped(t, stop)
		if fmt.Sprint(handled) != "[0 2]" || ended != nil {
			t.Errorf("the batch was %v, and its context ended by %v", handled, ended)
		}
		for i, want := range []dibs.State{dibs.Completed, dibs.Cancelled, dibs.Completed} { // the last had completed all the same
			if job := m.job(ids[i]); job.State != want {
				t.Errorf("job %d is %s, want %s", i, job.State, want)
			}
		}
	})
}

func TestABatchEndsWhenAllItsJobsDo(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var ended error
		w := quiet(m, nil)
		m.lease = time.Second
		dibs.HandleBatch(w, "k", 2, time.Second, func(ctx context.Context, jobs []*dibs.Job[int]) []error {
			<-ctx.Done()
			ended = context.Cause(ctx)
			return []error{ctx.Err(), ctx.Err()}
		})
		stop := run(t, w)
		ids := enqueue(t, m, numbered(2)...)
		synctest.Wait()
		m.cancel(ids[0])
		time.Sleep(3 * time.Second)
		if ended != nil {
			t.Errorf("the batch ended by %v, with its first job", ended)
		}
		m.cancel(ids[1])
		time.Sleep(3 * time.Second)
		stopped(t, stop)
		if !errors.Is(ended, dibs.ErrCancelled) {
			t.Errorf("the batch ended by %v", ended)
		}
		for _, id := range ids {
			if job := m.job(id); job.State != dibs.Cancelled {
				t.Errorf("a job is %s", job.State)
			}
		}
	})
}

// TestTheFirstOfABatchMayLeaveIt cancels the first job of a batch, and shuts down while it gathers.
func TestTheFirstOfABatchMayLeaveIt(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, nil)
		m.lease, w.ShutdownWait = time.Second, time.Second
		dibs.HandleBatch(w, "k", 10, time.Hour, func(context.Context, []*dibs.Job[int]) []error {
			t.Error("the batch was handled")
			return nil
		})
		stop := run(t, w)
		ids := enqueue(t, m, numbered(3)...)
		synctest.Wait()
		m.cancel(ids[0])
		time.Sleep(3 * time.Second)
		if job := m.job(ids[0]); job.State != dibs.Cancelled {
			t.Errorf("the first job is %s", job.State)
		}
		stopped(t, stop)
		for _, id := range ids[1:] {
			if job := m.job(id); job.State != dibs.Waiting || job.Excused != job.Attempt {
				t.Errorf("job %d is %s after %d attempts, %d of them excused", id, job.State, job.Attempt, job.Excused)
			}
		}
		time.Sleep(2 * time.Hour) // the batch's goroutine ends
	})
}
