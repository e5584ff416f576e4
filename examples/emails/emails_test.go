package emails

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// newStore is a queue in a file of the test's own, which goes with the test.
func newStore(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// attempt runs a worker until it has made one attempt, and returns that.
func attempt(t *testing.T, store dibs.Store, send Send) dibs.Attempt {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var made dibs.Attempt
	w := &dibs.Worker{Store: store, Concurrency: 1, Hooks: dibs.Hooks{
		Finished: func(a dibs.Attempt) { made = a; stop() },
	}}
	Register(w, send)
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if made.Job == nil {
		t.Fatal("there was no job to run")
	}
	return made
}

func TestOneWelcomeForEachAddress(t *testing.T) {
	store := newStore(t)
	for range 2 {
		if err := SignUp(t.Context(), store, "ann@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	page, err := store.List(t.Context(), admin.Filter{Kind: "welcome"})
	if err != nil || len(page.Jobs) != 1 || string(page.Jobs[0].Payload) != `{"to":"ann@example.com"}` {
		t.Errorf("enqueued %v, %v", page.Jobs, err)
	}
}

func TestHowAnAttemptEnds(t *testing.T) {
	for answer, want := range map[error]dibs.Ending{
		nil:          dibs.EndCompleted,
		ErrBusy:      dibs.EndRetry,
		ErrNoMailbox: dibs.EndDead,
	} {
		store := newStore(t)
		if err := SignUp(t.Context(), store, "ann@example.com"); err != nil {
			t.Fatal(err)
		}
		made := attempt(t, store, func(context.Context, string) error { return answer })
		if made.Outcome.Ending != want || made.NotWritten != nil {
			t.Errorf("%v ends in %q (%v), want %q", answer, made.Outcome.Ending, made.NotWritten, want)
		}
	}
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	store := newStore(t)
	if err := SignUp(t.Context(), store, "ann@example.com"); err != nil {
		t.Fatal(err)
	}
	first := attempt(t, store, func(context.Context, string) error { return ErrBusy })

	// The next attempt is a minute away: make it due now.
	if _, err := store.Edit(t.Context(), []int64{first.Job.ID}, admin.Edit{RunAt: &time.Time{}}); err != nil {
		t.Fatal(err)
	}
	second := attempt(t, store, func(context.Context, string) error { return nil })
	if second.Job.Attempt != 2 || second.Outcome.Ending != dibs.EndCompleted {
		t.Errorf("attempt %d ends in %q", second.Job.Attempt, second.Outcome.Ending)
	}
}
