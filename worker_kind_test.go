package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

type order struct{ Number int }

func TestAKindTiesThePayloadToItsName(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		confirm := dibs.NewKind[order]("confirm", dibs.KindOptions{Queue: "default", MaxAttempts: 4})
		j := confirm.New(order{7})
		if confirm.Name() != "confirm" || j.Kind != "confirm" || j.Queue != "default" || j.MaxAttempts != 4 || j.Payload != (order{7}) {
			t.Fatalf("a new job is %+v", j)
		}
		if s := confirm.Schedule("daily", "@daily", order{7}); s.Name != "daily" || s.Spec != "@daily" || s.Queue != "default" || s.Kind != "confirm" || s.Payload != (order{7}) || s.MaxAttempts != 4 {
			t.Fatalf("its schedule is %+v", s)
		}
		var got []order
		w := quiet(m, nil)
		confirm.Handle(w, func(_ context.Context, job *dibs.Job[order]) error {
			got = append(got, job.Payload)
			return nil
		})
		stop := run(t, w)
		ids := enqueue(t, m, dibs.NewJob{Kind: "confirm", Payload: `{"Number":7}`})
		synctest.Wait()
		stopped(t, stop)
		if job := m.job(ids[0]); job.State != dibs.Completed || !slices.Equal(got, []order{{7}}) {
			t.Errorf("the job is %s, the handler got %v", job.State, got)
		}
	})
}

func TestAnInvalidKindIsAProgrammersError(t *testing.T) {
	t.Parallel()
	h := func(context.Context, *dibs.RawJob) error { return nil }
	for name, f := range map[string]func(){
		"no name":           func() { dibs.NewKind[int]("", dibs.KindOptions{}) },
		"negative attempts": func() { dibs.NewKind[int]("k", dibs.KindOptions{MaxAttempts: -1}) },
		"of a handler":      func() { (&dibs.Worker{}).HandleRaw("k", h, dibs.KindOptions{MaxAttempts: -1}) },
		"an empty batch": func() {
			dibs.HandleBatch(&dibs.Worker{}, "k", 0, 0, func(context.Context, []*dibs.Job[int]) []error { return nil })
		},
		"a negative wait": func() {
			dibs.HandleBatch(&dibs.Worker{}, "k", 1, -1, func(context.Context, []*dibs.Job[int]) []error { return nil })
		},
		"an empty Kind's batch": func() {
			dibs.Kind[int]{}.HandleBatch(&dibs.Worker{}, 1, 0, func(context.Context, []*dibs.Job[int]) []error { return nil })
		},
		"no batch handler": func() { dibs.HandleBatch[int](&dibs.Worker{}, "k", 1, 0, nil) },
		"an empty Kind": func() {
			dibs.Kind[int]{}.Handle(&dibs.Worker{}, func(context.Context, *dibs.Job[int]) error { return nil })
		},
		"no middleware": func() { (&dibs.Worker{}).Use(nil) },
		"no worker":     func() { (*dibs.Worker)(nil).Use(func(h dibs.Handler) dibs.Handler { return h }) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "dibs: ") {
					t.Errorf("%s: panicked with %s", name, text)
				}
			}()
			f()
		}()
	}
	if _, err := dibs.NewKind[int]("k", dibs.KindOptions{}).Enqueue(t.Context(), nil, 1); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("Enqueue into nothing gave %v", err)
	}
}

func TestAKindHasATimeoutOfItsOwn(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, nil)
		w.JobTimeout = 10 * time.Second
		ran := map[string]time.Duration{}
		for kind, timeout := range map[string]time.Duration{"short": time.Second, "worker's": 0, "none": -1} {
			w.HandleRaw(kind, func(ctx context.Context, job *dibs.RawJob) error {
				began := time.Now()
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
				ran[job.Kind] = time.Since(began) // the handlers end at different times
				return ctx.Err()
			}, dibs.KindOptions{Timeout: timeout})
		}
		stop := run(t, w)
		ids := enqueue(t, m, dibs.NewJob{Kind: "short"}, dibs.NewJob{Kind: "worker's"}, dibs.NewJob{Kind: "none"})
		time.Sleep(61 * time.Second)
		stopped(t, stop)
		if text := m.job(ids[0]).Errors[0].Error; !strings.HasPrefix(text, "job timeout of 1s: ") {
			t.Errorf("the error is %q", text)
		}
		if ran["none"] != time.Minute || m.job(ids[2]).State != dibs.Completed {
			t.Errorf("the handlers ran for %v", ran)
		}
	})
}

var errBusy = errors.New("busy")

func TestAKindHasABackoffAndAttemptsOfItsOwn(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var asked []string
		w := quiet(m, nil)
		w.HandleRaw("k", func(_ context.Context, job *dibs.RawJob) error {
			if job.Attempt == 2 {
				return fmt.Errorf("no answer: %w", errBusy)
			}
			return fmt.Errorf("attempt %d", job.Attempt)
		}, dibs.KindOptions{
			MaxAttempts: 3,
			Backoff: func(n int, err error) time.Duration {
				asked = append(asked, fmt.Sprint(n, " ", err))
				return time.Duration(n) * time.Minute
			},
			IsFailure: func(err error) bool { return !errors.Is(err, errBusy) },
		})
		stop := run(t, w)
		id := enqueue(t, m, dibs.NewJob{Kind: "k", MaxAttempts: 20})[0]
		began := time.Now()
		for m.job(id).State != dibs.Dead {
			time.Sleep(time.Second)
		}
		took := time.Since(began)
		stopped(t, stop)
		// The second attempt does not count, so the third and fourth are the second and third that do.
		if want := []string{"1 attempt 1", "2 no answer: busy", "2 attempt 3", "3 attempt 4"}; !slices.Equal(asked, want) {
			t.Errorf("the backoff was asked about %q, want %q", asked, want)
		}
		job := m.job(id)
		if job.Attempt != 4 || job.Excused != 1 || len(job.Errors) != 3 {
			t.Errorf("the job had %d attempts, %d of them excused, and errors %v", job.Attempt, job.Excused, job.Errors)
		}
		if took < 5*time.Minute || took > 5*time.Minute+10*time.Second {
			t.Errorf("it took %v, want the delays of 1, 2 and 2 minutes", took)
		}
	})
}

func TestOptionsThatPanicFailTheAttempt(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, nil)
		w.HandleRaw("k", func(context.Context, *dibs.RawJob) error { return errBusy }, dibs.KindOptions{IsFailure: func(error) bool { panic("oops") }})
		stop := run(t, w)
		id := enqueue(t, m, dibs.NewJob{Kind: "k"})[0]
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		stopped(t, stop)
		if job := m.job(id); job.State != dibs.Waiting || job.Errors[0].Error != `busy (and the options of kind "k" panicked: oops)` {
			t.Errorf("the job is %s with history %v", job.State, job.Errors)
		}
	})
}

func TestOptionsThatEndTheGoroutineFailTheAttempt(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		w := quiet(m, nil)
		w.HandleRaw("k", func(context.Context, *dibs.RawJob) error { return errBusy }, dibs.KindOptions{Backoff: func(int, error) time.Duration { runtime.Goexit(); return 0 }})
		stop := run(t, w)
		id := enqueue(t, m, dibs.NewJob{Kind: "k"})[0]
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		stopped(t, stop)
		if job := m.job(id); job.State != dibs.Waiting || !strings.Contains(job.Errors[0].Error, "Goexit") {
			t.Errorf("the job is %s with history %v", job.State, job.Errors)
		}
	})
}

func TestMiddlewareIsAroundEachHandler(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var seen []string
		w := quiet(m, nil)
		trace := func(name string) func(dibs.Handler) dibs.Handler {
			return func(next dibs.Handler) dibs.Handler {
				return func(ctx context.Context, job *dibs.RawJob) (err error) {
					seen = append(seen, name+" begins "+job.Kind)
					defer func() {
						if p := recover(); p != nil {
							err = fmt.Errorf("recovered: %v", p)
						}
						seen = append(seen, fmt.Sprint(name, " ends ", err))
					}()
					return next(ctx, job)
				}
			}
		}
		w.Use(trace("outer"))
		dibs.Handle(w, "good", func(ctx context.Context, job *dibs.Job[int]) error { return job.SetResult(job.Payload + 1) })
		w.HandleRaw("bad", func(context.Context, *dibs.RawJob) error { panic("oops") })
		w.Use(trace("inner"))
		w.Concurrency = 1
		stop := run(t, w)
		ids := enqueue(t, m, dibs.NewJob{Kind: "good", Payload: "1"}, dibs.NewJob{Kind: "bad"})
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		stopped(t, stop)
		want := []string{
			"outer begins good", "inner begins good", "inner ends <nil>", "outer ends <nil>",
			"outer begins bad", "inner begins bad", "inner ends recovered: oops", "outer ends recovered: oops",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
		if good, bad := m.job(ids[0]), m.job(ids[1]); string(good.Result) != "2" || bad.Errors[0].Error != "recovered: oops" {
			t.Errorf("the result is %s, the history %v", good.Result, bad.Errors)
		}
	})
}

func TestMiddlewareThatReturnsNothingIsRefused(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	w := quiet(newMemory(), func(context.Context, *dibs.RawJob) error { return nil })
	w.Use(func(dibs.Handler) dibs.Handler { return nil })
	var invalid *dibs.InvalidError
	if err := w.Run(t.Context()); !errors.As(err, &invalid) || invalid.Field != "worker.middleware" {
		t.Errorf("Run gave %v", err)
	}
}

func TestWhatAHandlersErrorMeans(t *testing.T) {
	t.Parallel()
	minute := time.Minute
	for _, test := range []struct {
		err    error
		ending dibs.Ending
		text   string
		delay  *time.Duration
	}{
		{nil, dibs.EndCompleted, "", nil},
		{errBusy, dibs.EndRetry, "busy", nil},
		{dibs.Retry(errBusy), dibs.EndRetry, "busy", nil},
		{dibs.RetryAfter(minute, errBusy), dibs.EndRetry, "busy", &minute},
		{dibs.Snooze(minute), dibs.EndSnooze, "", &minute},
		{dibs.Die(errBusy), dibs.EndDead, "busy", nil},
		{dibs.Release(), dibs.EndRelease, "", nil},
		{fmt.Errorf("no file: %w", dibs.ErrNotStarted), dibs.EndRelease, "", nil},
		{fmt.Errorf("the order is void: %w", dibs.ErrCancelled), dibs.EndCancelled, "the order is void: job cancelled", nil},
		{dibs.Retry(dibs.ErrCancelled), dibs.EndRetry, "job cancelled", nil},
		{dibs.ErrFinished, "", "", nil},
	} {
		o := dibs.OutcomeOf(t.Context(), test.err)
		same := o.Delay == nil && test.delay == nil || o.Delay != nil && test.delay != nil && *o.Delay == *test.delay
		if o.Ending != test.ending || o.Error != test.text || !same {
			t.Errorf("%v means %+v", test.err, o)
		}
	}
}

// Of an error that comes from the end of the context, the cause of that decides.
func TestWhatAnErrorMeansWhenTheContextHasEnded(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]dibs.Ending{
		dibs.ErrCancelled:  dibs.EndCancelled,
		dibs.ErrShutdown:   dibs.EndRelease,
		dibs.ErrLeaseLost:  dibs.EndRelease,
		dibs.ErrJobTimeout: dibs.EndRetry,
	} {
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		if got := dibs.OutcomeOf(ctx, ctx.Err()).Ending; got != want {
			t.Errorf("after %v it means %q, want %q", cause, got, want)
		}
		if got := dibs.OutcomeOf(ctx, nil).Ending; got != dibs.EndCompleted {
			t.Errorf("after %v, no error means %q", cause, got)
		}
	}
}

func TestStartedGetsTheContextOfTheAttempt(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		if _, err := m.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		type key struct{}
		ctx, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "run"))
		var started context.Context
		w := quiet(m, func(ctx context.Context, _ *dibs.RawJob) error {
			if started == nil || started.Value(key{}) != "run" || started.Done() != ctx.Done() {
				t.Errorf("the hook got %v, the handler %v", started, ctx)
			}
			stop()
			return nil
		})
		w.Hooks.Started = func(ctx context.Context, _ *dibs.RawJob) { started = ctx }
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// finishTx is a transaction that commits with each Finish.
type finishTx struct {
	dibs.Tx
	m *memory
}

func (f finishTx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return f.m.Finish(ctx, outcomes)
}

func TestAHandlerFinishesInItsOwnTransactionAndReturnsNil(t *testing.T) {
	needs.Race(t)
	virtualTime(t, func(t *testing.T, m *memory) {
		var finished []dibs.Attempt
		w := quiet(m, nil)
		w.Hooks.Finished = func(a dibs.Attempt) { finished = append(finished, a) }
		dibs.Handle(w, "typed", func(ctx context.Context, job *dibs.Job[int]) error { return job.FinishIn(ctx, finishTx{m: m}, 5) })
		w.HandleRaw("raw", func(ctx context.Context, job *dibs.RawJob) error { return job.FinishIn(ctx, finishTx{m: m}, nil) })
		w.HandleRaw("changed its mind", func(ctx context.Context, job *dibs.RawJob) error {
			if err := job.FinishIn(ctx, finishTx{m: m}, nil); err != nil {
				return err
			}
			return errBusy
		})
		w.HandleRaw("no transaction", func(ctx context.Context, job *dibs.RawJob) error { return job.FinishIn(ctx, nil, nil) })
		stop := run(t, w)
		ids := enqueue(t, m, dibs.NewJob{Kind: "typed", Payload: "1"}, dibs.NewJob{Kind: "raw"}, dibs.NewJob{Kind: "changed its mind"}, dibs.NewJob{Kind: "no transaction"})
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		stopped(t, stop)
		if job := m.job(ids[0]); job.State != dibs.Completed || string(job.Result) != "5" {
			t.Errorf("the typed job is %s with result %s", job.State, job.Result)
		}
		for _, a := range finished {
			written := a.NotWritten == nil
			want := map[string]dibs.Ending{"typed": "", "raw": "", "changed its mind": dibs.EndRetry, "no transaction": dibs.EndRetry}[a.Job.Kind]
			// The retry comes after the commit, so it is refused.
			if got := a.Outcome.Ending; written != (a.Job.Kind != "changed its mind") || got != want && want != "" {
				t.Errorf("%s: ending %q, written: %v", a.Job.Kind, got, a.NotWritten)
			}
		}
		if len(finished) < 4 {
			t.Errorf("%d attempts were finished", len(finished))
		}
	})
}
