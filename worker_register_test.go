package dibs_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// reports lists the entries that workers have given to Register.
func (m *memory) reports() []dibs.WorkerInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.registered)
}

func TestAWorkerReportsWhileItWorksAndStops(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error { time.Sleep(35 * time.Second); return nil })
		w.Name, w.Concurrency, w.ShutdownWait = "w", 7, time.Minute
		stop := run(t, w)
		synctest.Wait()
		first := m.reports()
		if len(first) != 1 || first[0].State != dibs.WorkerWorking || first[0].Name != "w" || first[0].Concurrency != 7 || first[0].ID.IsZero() || !slices.Equal(first[0].Queues, []string{dibs.DefaultQueue}) {
			t.Fatalf("after its first claim it has reported %+v", first)
		}
		time.Sleep(time.Minute)
		if n := len(m.reports()); n < 6 || n > 7 {
			t.Errorf("%d reports in a minute", n)
		}
		enqueue(t, m, plain(1)...)
		synctest.Wait()
		before := len(m.reports())
		stopped(t, stop)
		var states []string
		for _, r := range m.reports()[before:] {
			if r.ID != first[0].ID {
				t.Errorf("the entry has another id: %+v", r)
			}
			states = append(states, r.State)
		}
		if n := len(states) - 1; n < 3 || states[n] != dibs.WorkerStopped || slices.ContainsFunc(states[:n], func(s string) bool { return s != dibs.WorkerStopping }) {
			t.Errorf("while it stopped it reported %q", states)
		}
	})
}

// One warning is enough, and the next report may succeed.
func TestAWorkerThatCannotReportWorksAndStopsAllTheSame(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		away := errors.New("no such table")
		m.setScript(func(_ context.Context, call string) error {
			if call == "register" {
				return away
			}
			return nil
		})
		var log strings.Builder
		var failed []string
		ran := make(chan struct{}, 1)
		w := quiet(m, func(context.Context, *dibs.RawJob) error { ran <- struct{}{}; return nil })
		w.Hooks.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.Hooks.Error = func(call string, _ error) { failed = append(failed, call) }
		stop := run(t, w)
		time.Sleep(time.Minute)
		enqueue(t, m, plain(1)...)
		<-ran
		m.setScript(nil)
		time.Sleep(20 * time.Second)
		if len(m.reports()) == 0 {
			t.Error("it does not report again")
		}
		stopped(t, stop)
		if !slices.Equal(failed, []string{"register"}) || strings.Count(log.String(), "not in the register") != 1 {
			t.Errorf("failed calls %q, log\n%s", failed, log.String())
		}
	})
}

func TestAReportThatHangsHoldsUpNothing(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var hang atomic.Bool
		m.setScript(func(ctx context.Context, call string) error {
			if call == "register" && hang.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		ran := make(chan struct{}, 1)
		stop := run(t, quiet(m, func(context.Context, *dibs.RawJob) error { ran <- struct{}{}; return nil }))
		synctest.Wait()
		hang.Store(true)
		time.Sleep(11500 * time.Millisecond) // a report has begun
		enqueued := time.Now()
		enqueue(t, m, plain(1)...)
		<-ran
		if took := time.Since(enqueued); took != 0 {
			t.Errorf("a job started after %v", took)
		}
		time.Sleep(15 * time.Second)
		began := time.Now()
		stopped(t, stop)
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("Run returned %v after its end", took)
		}
	})
}
