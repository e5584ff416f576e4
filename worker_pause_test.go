package dibs_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

var errNoRoom = fmt.Errorf("no room: %w", dibs.ErrNotStarted)

// A worker that cannot start its jobs must not use up their attempts, nor claim them again at
// once.
func TestJobsThatCannotBeStartedAreGivenBackAndClaimsPause(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var starts []time.Time
		var text bytes.Buffer
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			if starts = append(starts, time.Now()); len(starts) <= 12 {
				return errNoRoom
			}
			return nil
		})
		w.Hooks.Log = slog.New(slog.NewTextHandler(&text, nil))
		w.Concurrency = 1 // no claim is under way when a handler returns
		stop := run(t, w)
		id := enqueue(t, m, plain(1)...)[0]
		time.Sleep(5 * time.Minute)
		stopped(t, stop)
		job := m.job(id)
		if job.State != dibs.Completed || job.Attempt != 13 || job.Excused != 12 || len(job.Errors) > 0 {
			t.Errorf("the job is %s, %d of %d attempts excused, history %v", job.State, job.Excused, job.Attempt, job.Errors)
		}
		want := 100 * time.Millisecond
		for i := 1; i < len(starts); i++ {
			if wait := starts[i].Sub(starts[i-1]); wait < want*3/4 || wait > want*5/4+10*time.Millisecond {
				t.Errorf("wait %d is %v, want about %v", i, wait, want)
			}
			want = min(2*want, 30*time.Second)
		}
		if n := strings.Count(text.String(), `level=WARN msg="job not started; it is given back, and claims pause" job=1 kind=plain error="no room: job not started" pause=`); n != 12 {
			t.Errorf("the log tells of %d pauses:\n%s", n, text.String())
		}
	})
}

func TestAJobThatCanBeStartedEndsTheGrowthOfPauses(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		n := 0
		var last time.Time
		var waits []time.Duration
		w := quiet(m, func(context.Context, *dibs.RawJob) error {
			n++
			waits = append(waits, time.Since(last))
			last = time.Now()
			if n%10 != 9 {
				return errNoRoom
			}
			return nil
		})
		w.Concurrency = 1
		stop := run(t, w)
		enqueue(t, m, plain(2)...)
		time.Sleep(5 * time.Minute)
		stopped(t, stop)
		if len(waits) != 19 {
			t.Fatalf("%d starts", len(waits))
		}
		if waits[8] < 5*time.Second || waits[10] > 200*time.Millisecond {
			t.Errorf("the pauses are %v", waits)
		}
	})
}

// Ten jobs of one claim that cannot be started make one pause, not ten.
func TestJobsOfOneClaimPauseOnce(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		enqueue(t, m, plain(10)...)
		var failed atomic.Int32
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error {
			if failed.Add(1) <= 10 {
				return errNoRoom
			}
			return nil
		}))
		time.Sleep(time.Second)
		stopped(t, stop)
		for id := range int64(10) {
			if job := m.job(id + 1); job.State != dibs.Completed || job.Attempt != 2 || job.Excused != 1 {
				t.Errorf("job %d is %s, %d of %d attempts excused", job.ID, job.State, job.Excused, job.Attempt)
			}
		}
	})
}

func TestACancelledJobThatCannotBeStartedIsCancelled(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		stop := run(t, quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			<-ctx.Done()
			return errNoRoom
		}))
		id := enqueue(t, m, plain(1)...)[0]
		time.Sleep(time.Second)
		m.cancel(id)
		time.Sleep(time.Minute)
		stopped(t, stop)
		if job := m.job(id); job.State != dibs.Cancelled {
			t.Errorf("the job is %s", job.State)
		}
	})
}
