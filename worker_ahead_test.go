package dibs_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// roundTrips makes each call to the store take a while, as to a server.
func roundTrips(m *memory, each time.Duration) {
	m.setScript(func(context.Context, string) error {
		time.Sleep(each)
		return nil
	})
}

// Quick handlers do not wait for a round trip after every few jobs, and never more of them run at
// once than there are places.
func TestQuickJobsAreClaimedAhead(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		const jobs = 5000
		roundTrips(m, time.Millisecond)
		enqueue(t, m, plain(jobs)...)
		var running, most, done atomic.Int64
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(50 * time.Microsecond)
			running.Add(-1)
			done.Add(1)
			return nil
		})
		start := time.Now()
		stop := run(t, w)
		for done.Load() < jobs {
			time.Sleep(time.Millisecond)
		}
		if took, n := time.Since(start), m.count("claim"); took > 200*time.Millisecond || n > 100 || most.Load() > 10 {
			t.Errorf("%d jobs of 50 µs in 10 places took %v and %d claims; %d ran at once", jobs, took, n, most.Load())
		}
		stopped(t, stop)
	})
}

// Handlers that take long get no jobs ahead: other workers may have places for those.
func TestSlowJobsAreNotClaimedAhead(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		enqueue(t, m, plain(1000)...)
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error {
			time.Sleep(time.Second)
			return nil
		}))
		for range 100 {
			time.Sleep(777 * time.Millisecond)
			if n := m.runningNow(); n > 20 {
				t.Fatalf("the worker holds %d jobs for 10 places", n)
			}
		}
		stopped(t, stop)
	})
}

// When all handlers suddenly take long, the jobs that were claimed ahead go back within a tenth of
// a second, uncounted, and another worker starts them.
func TestJobsAheadAreGivenBackWhenHandlersTakeLong(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		const quick, slow, last = 1000, 10, 200
		var mu sync.Mutex
		var late time.Duration // guarded by mu
		handler := func(_ context.Context, j *dibs.RawJob) error {
			switch {
			case j.ID > quick+slow:
				mu.Lock()
				defer mu.Unlock()
				late = max(late, time.Since(j.CreatedAt))
			case j.ID > quick:
				time.Sleep(time.Hour)
			}
			return nil
		}
		enqueue(t, m, plain(quick+slow+last)...)
		stop := run(t, quiet(m, handler))
		time.Sleep(50 * time.Millisecond) // all jobs are claimed, and those ahead have not waited for too long
		other := run(t, quiet(m, handler))
		time.Sleep(time.Minute)
		for id := int64(quick + slow + 1); id <= quick+slow+last; id++ {
			if j := m.job(id); j.State != dibs.Completed || j.Attempt-j.Excused != 1 {
				t.Errorf("job %d is %s, attempt %d of which %d do not count", id, j.State, j.Attempt, j.Excused)
				break
			}
		}
		mu.Lock()
		if m.job(quick+slow+last).Excused == 0 || late > 2*time.Second {
			t.Errorf("jobs started up to %v late; the last was given back %d times", late, m.job(quick+slow+last).Excused)
		}
		mu.Unlock()
		time.Sleep(time.Hour)
		stopped(t, stop)
		stopped(t, other)
	})
}

// A worker that stops gives the jobs ahead back at once.
func TestJobsAheadAreGivenBackAtTheShutdown(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		const quick = 1000
		enqueue(t, m, plain(quick+500)...)
		release := make(chan struct{})
		stop := run(t, quiet(m, func(_ context.Context, j *dibs.RawJob) error {
			if j.ID > quick {
				<-release
			}
			return nil
		}))
		time.Sleep(10 * time.Millisecond)
		if n := m.runningNow(); n < 100 {
			t.Errorf("the worker holds %d jobs, too few to see anything", n)
		}
		ended := make(chan error)
		go func() { ended <- stop() }()
		time.Sleep(10 * time.Millisecond)
		if n := m.runningNow(); n != 10 {
			t.Errorf("the stopping worker still holds %d jobs, 10 of which run", n)
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A job that is cancelled while it waits ahead never starts.
func TestAJobAheadThatIsCancelledDoesNotStart(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		const quick = 1000
		all := enqueue(t, m, plain(quick+50)...)
		cancelled := all[len(all)-1]
		started := atomic.Bool{}
		stop := run(t, quiet(m, func(ctx context.Context, j *dibs.RawJob) error {
			if j.ID == cancelled {
				started.Store(true)
			}
			if j.ID > quick {
				return untilEnd(ctx, j)
			}
			return nil
		}))
		time.Sleep(10 * time.Millisecond)
		if m.job(cancelled).State != dibs.Running {
			t.Errorf("the last job is %s", m.job(cancelled).State)
		}
		m.cancel(cancelled)
		time.Sleep(200 * time.Millisecond) // it is given back
		if j := m.job(cancelled); j.State != dibs.Cancelled || started.Load() {
			t.Errorf("the job is %s; started: %v", j.State, started.Load())
		}
		stopped(t, stop)
	})
}
