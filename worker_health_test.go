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

// soon is a context for a question that has to be answered within a second.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func health(t *testing.T, when string, w *dibs.Worker, live, ready bool) {
	t.Helper()
	if err := w.Live(soon(t)); (err == nil) != live {
		t.Errorf("%s: Live returned %v", when, err)
	}
	if err := w.Ready(soon(t)); (err == nil) != ready {
		t.Errorf("%s: Ready returned %v", when, err)
	}
}

func TestAWorkerIsLiveWhileItRunsAndReadyWhileItsDatabaseAnswers(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, untilEnd)
		health(t, "before Run", w, false, false)
		stop := run(t, w)
		time.Sleep(time.Minute)
		health(t, "while idle", w, true, true)
		enqueue(t, m, plain(20)...)
		time.Sleep(time.Minute)
		health(t, "while all places are taken", w, true, true)
		m.setScript(func(context.Context, string) error { return errAway })
		time.Sleep(5 * time.Second)
		health(t, "when the database has just gone", w, true, true)
		time.Sleep(6 * time.Second)
		health(t, "while the database is away", w, true, false)
		if err := w.Ready(soon(t)); !errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("it is not ready because: %v", err)
		}
		m.setScript(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(time.Minute)
		health(t, "while the database does not answer", w, true, false)
		m.setScript(nil)
		time.Sleep(15 * time.Second)
		health(t, "when the database is back", w, true, true)
		enqueue(t, m, plain(1)...)
		stopping := make(chan error)
		go func() { stopping <- stop() }()
		time.Sleep(time.Second)
		health(t, "during the shutdown", w, true, false)
		if err := w.Ready(soon(t)); !errors.Is(err, dibs.ErrShutdown) {
			t.Errorf("it is not ready because: %v", err)
		}
		if err := <-stopping; err != nil {
			t.Error(err)
		}
		health(t, "after Run", w, false, false)
	})
}

func TestAWorkerThatNeverReachedItsDatabaseIsNotReady(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		m.setScript(func(context.Context, string) error { return errAway })
		w := quiet(m, untilEnd)
		stop := run(t, w)
		synctest.Wait()
		health(t, "at the start", w, true, false)
		stopped(t, stop)
	})
}

func TestAWorkerWhoseHookBlocksIsNotLive(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		block := make(chan struct{})
		w := quiet(m, func(context.Context, *dibs.RawJob) error { return nil })
		w.Hooks.Started = func(context.Context, *dibs.RawJob) { <-block }
		stop := run(t, w)
		synctest.Wait()
		enqueue(t, m, plain(1)...)
		synctest.Wait()
		health(t, "while a hook blocks", w, false, false)
		close(block)
		health(t, "afterwards", w, true, true)
		stopped(t, stop)
	})
}

func TestStopNowWaitsForNoHandler(t *testing.T) {
	needs.Race(t)
	for _, first := range []bool{false, true} { // with and without a shutdown that has begun
		virtual := func(t *testing.T, m *memory) {
			w := quiet(m, untilEnd)
			w.ShutdownWait = time.Hour
			stop := run(t, w)
			enqueue(t, m, plain(3)...)
			time.Sleep(time.Second)
			ended := make(chan error, 1)
			if first {
				go func() { ended <- stop() }()
				time.Sleep(time.Minute)
			}
			start := time.Now()
			w.StopNow()
			if !first {
				synctest.Wait()
				ended <- stop()
			}
			if err := <-ended; err != nil || time.Since(start) != 0 {
				t.Errorf("Run returned %v after %v", err, time.Since(start))
			}
			for id := range int64(3) {
				if job := m.job(id + 1); job.State != dibs.Waiting || job.Attempt != job.Excused {
					t.Errorf("job %d is %s, %d of %d attempts excused", job.ID, job.State, job.Excused, job.Attempt)
				}
			}
			w.StopNow() // of nothing
		}
		t.Run("", func(t *testing.T) { virtualTime(t, virtual) })
	}
}

// A handler that ignores its context, and a database that does not answer, cost 5 s.
func TestStopNowEndsWithinFiveSecondsWhateverHappens(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w, wake := stuck(t, m)
		w.ShutdownWait = time.Hour
		stop := run(t, w)
		time.Sleep(time.Second)
		start := time.Now()
		w.StopNow()
		synctest.Wait()
		err := stop()
		if took := time.Since(start); took != 5*time.Second || !errors.Is(err, dibs.ErrShutdown) {
			t.Errorf("Run returned %v after %v", err, took)
		}
		close(wake)
	})
}

// What is asked of a worker that is not set up, or not running, is answered.
func TestAWorkerThatDoesNotRunSaysSo(t *testing.T) {
	t.Parallel()
	var none *dibs.Worker
	for _, w := range []*dibs.Worker{none, {}, quiet(newMemory(), untilEnd)} {
		w.StopNow()
		if w.Live(t.Context()) == nil || w.Ready(t.Context()) == nil {
			t.Errorf("%+v is live or ready", w)
		}
		var noContext context.Context
		if err := errors.Join(w.Live(noContext), w.Ready(noContext)); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("without a context: %v", err)
		}
	}
}
