package dibstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/dibstest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// SignUp and Register are what is tested: the one enqueues, the other handles.

type Welcome struct{ To string }

var ErrNoSuchMailbox = errors.New("no such mailbox")

func SignUp(ctx context.Context, jobs dibs.Enqueuer, address string) error {
	_, err := jobs.Enqueue(ctx, []dibs.NewJob{{Kind: "welcome", Payload: Welcome{address}, Delay: time.Hour}})
	return err
}

func Register(w *dibs.Worker, send func(to string) error) {
	dibs.Handle(w, "welcome", func(_ context.Context, job *dibs.Job[Welcome]) error {
		err := send(job.Payload.To)
		if errors.Is(err, ErrNoSuchMailbox) {
			return dibs.Die(err)
		}
		return err
	})
}

func TestSignUpWelcomesLater(t *testing.T) {
	store := dibstest.Store(t)
	if err := SignUp(t.Context(), store, "ann@example.com"); err != nil {
		t.Fatal(err)
	}
	dibstest.RequireEnqueued(t, store, dibstest.Want{Kind: "welcome", Payload: Welcome{"ann@example.com"}})

	var sent []string
	w := &dibs.Worker{Store: store}
	Register(w, func(to string) error { sent = append(sent, to); return nil })
	dibstest.Drain(t, w)
	if len(sent) != 0 {
		t.Errorf("welcomed at once: %q", sent)
	}
	dibstest.Advance(t, store, time.Hour)
	dibstest.Drain(t, w)
	if len(sent) != 1 {
		t.Errorf("welcomed an hour later: %q", sent)
	}
}

func TestAMissingMailboxEndsTheJob(t *testing.T) {
	needs.Race(t)
	w := &dibs.Worker{Store: dibstest.Store(t)}
	Register(w, func(string) error { return ErrNoSuchMailbox })
	made := dibstest.Work(t, w, dibs.NewJob{Kind: "welcome", Payload: Welcome{"nobody@example.com"}})
	if made.Outcome.Ending != dibs.EndDead {
		t.Errorf("it ended in %q", made.Outcome.Ending)
	}
}
