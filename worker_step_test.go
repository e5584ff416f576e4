package dibs_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestBadStepsAreRefusedBeforeTheyRun(t *testing.T) {
	t.Parallel()
	never := func(context.Context) (int, error) { t.Error("the step ran"); return 0, nil }
	raw := &dibs.RawJob{ID: 1}
	var none *dibs.Job[int]
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var noContext context.Context
	for field, call := range map[string]func() error{
		"ctx":   func() error { _, err := dibs.Step(noContext, raw, "a", never); return err },
		"step":  func() error { _, err := dibs.Step(t.Context(), raw, "mail ann\nsmith", never); return err },
		"f":     func() error { _, err := dibs.Step[int](t.Context(), raw, "a", nil); return err },
		"tx":    func() error { _, err := dibs.StepIn(t.Context(), nil, raw, "a", never); return err },
		"job":   func() error { _, err := dibs.Step(t.Context(), raw, "a", never); return err },
		"store": func() error { _, err := dibs.StepIn(t.Context(), noSteps{}, raw, "a", never); return err },
	} {
		var bad *dibs.InvalidError
		if err := call(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := dibs.Step(t.Context(), nil, "a", never); !errors.Is(err, dibs.ErrInvalid) {
		t.Error(err)
	}
	if _, err := dibs.Step(t.Context(), none, "a", never); !errors.Is(err, dibs.ErrInvalid) {
		t.Error(err)
	}
	_, err = dibs.StepIn(t.Context(), store.SQLTx(nil), raw, "a", never)
	if !errors.Is(err, dibs.ErrInvalid) {
		t.Error(err)
	}
}

// noSteps is a transaction of a store that keeps no steps.
type noSteps struct{ dibs.Tx }

// away is a store that is unavailable for some calls about steps, and loses the answers to some writes.
type away struct {
	*sqlite.Store
	reads, writes, loses int
	read                 int // calls of Steps
}

func (a *away) Steps(ctx context.Context, l dibs.Lease) ([]dibs.StepDone, error) {
	if a.read++; a.reads > 0 {
		a.reads--
		return nil, dibs.ErrUnavailable
	}
	return a.Store.Steps(ctx, l)
}

func (a *away) PutStep(ctx context.Context, l dibs.Lease, name string, value json.RawMessage) error {
	if a.writes > 0 {
		a.writes--
		return dibs.ErrUnavailable
	}
	err := a.Store.PutStep(ctx, l, name, value)
	if err == nil && a.loses > 0 {
		a.loses--
		return dibs.ErrUnavailable // its answer is lost
	}
	return err
}

// oneJob is a file with one job, and a context for the worker that does it, which stop ends.
func oneJob(t *testing.T) (file *sqlite.Store, ctx context.Context, stop func()) {
	t.Helper()
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // nothing is left to fail
	if _, err := file.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", Payload: 1}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithTimeout(t.Context(), time.Minute)
	return file, ctx, stop
}

func TestStepsAreReadOnlyFromTheSecondAttemptOn(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	file, ctx, stop := oneJob(t)
	defer stop()
	store := &away{Store: file, reads: 2, writes: 2, loses: 1}
	calls, readBy := 0, []int{}
	w := quiet(store, func(ctx context.Context, job *dibs.RawJob) error {
		for range 2 {
			n, err := dibs.Step(ctx, job, "a", func(context.Context) (int, error) { calls++; return 7, nil })
			if err != nil || n != 7 {
				return dibs.Die(errors.Join(err, errors.New("another value")))
			}
		}
		if readBy = append(readBy, store.read); job.Attempt < 3 {
			return dibs.RetryAfter(0, errors.New("again"))
		}
		stop()
		return nil
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 3, 4}; calls != 1 || len(readBy) != 3 || readBy[0] != want[0] || readBy[1] != want[1] || readBy[2] != want[2] {
		t.Errorf("the step ran %d times; after each attempt the steps had been read %v times, want %v", calls, readBy, want)
	}
}

// A step that may be written, as its answer was lost when the context ended, is looked for before it is done again.
func TestAStepWithoutAnAnswerIsNotDoneAgain(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	file, ctx, stop := oneJob(t)
	defer stop()
	calls := 0
	w := quiet(&away{Store: file, loses: 1}, func(ctx context.Context, job *dibs.RawJob) error {
		defer stop()
		short, end := context.WithCancel(ctx)
		if _, err := dibs.Step(short, job, "a", func(context.Context) (int, error) { end(); calls++; return calls, nil }); err == nil {
			t.Error("a step without an answer has no error")
		}
		if n, err := dibs.Step(ctx, job, "a", func(context.Context) (int, error) { calls++; return calls, nil }); n != 1 || err != nil {
			t.Errorf("the second call gives %d, %v", n, err)
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if calls != 1 {
		t.Errorf("the step ran %d times", calls)
	}
}

// A panic and an error leave nothing behind, and free the name of the step.
func TestAStepThatFailsIsNotDone(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	file, ctx, stop := oneJob(t)
	defer stop()
	w := quiet(file, func(ctx context.Context, job *dibs.RawJob) error {
		defer stop()
		func() {
			defer func() { _ = recover() }()
			_, _ = dibs.Step(ctx, job, "a", func(context.Context) (int, error) { panic("a") })
		}()
		if _, err := dibs.Step(ctx, job, "a", func(context.Context) (chan int, error) { return nil, nil }); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("a value that JSON does not have: %v", err)
		}
		if _, err := dibs.Step(ctx, job, "a", func(context.Context) (string, error) { return strings.Repeat("x", dibs.MaxResult), nil }); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("a value that is too large: %v", err)
		}
		if n, err := dibs.Step(ctx, job, "a", func(context.Context) (int, error) { return 1, nil }); n != 1 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
}
