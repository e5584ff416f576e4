package dibs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// counting is a handler that sets its progress each 10 ms, to the number of these times.
func counting(ctx context.Context, job *dibs.RawJob) error {
	for n := int64(1); ; n++ {
		if err := job.SetProgress(n, 0, ""); err != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// At every moment the stored progress is at most 5 s old, however long the lease, and there
// are no more calls than that needs.
func TestProgressIsNeverOlderThanFiveSeconds(t *testing.T) {
	needs.Race(t)
	for _, lease := range []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second, time.Hour} {
		t.Run(lease.String(), func(t *testing.T) { progressWithLease(t, lease) })
	}
}

func progressWithLease(t *testing.T, lease time.Duration) {
	virtualTime(t, func(t *testing.T, m *memory) {
		m.lease = lease
		m.setScript(func(context.Context, string) error { time.Sleep(500 * time.Millisecond); return nil }) // a slow database
		w := quiet(m, counting)
		w.ShutdownWait = -1
		stop := run(t, w)
		ids := enqueue(t, m, plain(5)...)
		time.Sleep(time.Second)
		synctest.Wait()
		began := m.job(ids[0]).ClaimedAt
		before := m.count("extend")
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			for _, id := range ids {
				job := m.job(id)
				age := time.Since(began)
				if job.Progress != nil {
					age -= time.Duration(job.Progress.Done) * 10 * time.Millisecond
				}
				if age > 5*time.Second+100*time.Millisecond {
					t.Fatalf("with a lease of %v, after %v the progress is %+v", lease, time.Since(began), job.Progress)
				}
			}
		}
		most := 100/4 + 1
		if lease < 12*time.Second {
			most = int(100*time.Second/(lease/3)) + 1
		}
		if n := m.count("extend") - before; n > most {
			t.Errorf("with a lease of %v, %d calls in 100 s, want at most %d", lease, n, most)
		}
		stopped(t, stop)
	})
}

func TestHandlersWithoutProgressCostNoExtension(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.lease = time.Hour
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error { <-ctx.Done(); return ctx.Err() })
		w.ShutdownWait = -1
		stop := run(t, w)
		enqueue(t, m, plain(5)...)
		time.Sleep(10 * time.Minute)
		if n := m.count("extend"); n != 0 {
			t.Errorf("%d calls", n)
		}
		stopped(t, stop)
	})
}

// What a call could not write comes with the next, unless the handler has set something since.
func TestProgressOutlivesAnExtendThatFails(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.lease = time.Hour
		w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
			if err := job.SetProgress(-1, 0, ""); !errors.Is(err, dibs.ErrInvalid) {
				t.Errorf("a negative number gave %v", err)
			}
			if err := job.SetProgress(job.ID, 9, "once"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
		w.ShutdownWait = -1
		stop := run(t, w)
		m.setScript(func(_ context.Context, call string) error {
			if call == "extend" {
				return errAway
			}
			return nil
		})
		ids := enqueue(t, m, plain(2)...)
		time.Sleep(time.Minute)
		if n := m.count("extend"); n == 0 || m.job(ids[0]).Progress != nil {
			t.Fatalf("%d calls, progress %+v", n, m.job(ids[0]).Progress)
		}
		m.setScript(nil)
		time.Sleep(6 * time.Minute) // a tenth of the lease after the last failure
		for _, id := range ids {
			if p := m.job(id).Progress; p == nil || p.Done != id || p.Total != 9 || p.Text != "once" {
				t.Errorf("job %d has progress %+v", id, p)
			}
		}
		stopped(t, stop)
	})
}
