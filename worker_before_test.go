package dibs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dibs-queue/dibs"
)

// onlyStore has the methods of a store, and no others.
type onlyStore struct{ dibs.Store }

func firstBefore(ctx context.Context, job *dibs.RawJob) (first *dibs.RawJob, err error) {
	for b, err := range job.Before(ctx) {
		return b, err
	}
	return nil, nil
}

func TestTheJobsBeforeAreOnlyKnownInAHandler(t *testing.T) {
	t.Parallel()
	store, end := temporary(t.Context())
	defer end()
	for _, job := range []*dibs.RawJob{nil, {}, {ID: 1}} {
		var bad *dibs.InvalidError
		if b, err := firstBefore(t.Context(), job); b != nil || !errors.As(err, &bad) || bad.Field != "job" {
			t.Errorf("%v, %v", b, err)
		}
	}
	done, err := store.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", Payload: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &dibs.Worker{Store: onlyStore{store}}
	dibs.Handle(w, "k", func(ctx context.Context, job *dibs.Job[int]) error {
		defer stop()
		var bad *dibs.InvalidError
		if b, err := firstBefore(ctx, &job.RawJob); b != nil || !errors.As(err, &bad) || bad.Field != "store" {
			t.Errorf("%v, %v", b, err)
		}
		return nil
	})
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if j, err := store.Get(t.Context(), done[0].ID); err != nil || j.State != dibs.Completed {
		t.Errorf("%v, %v", j, err)
	}
}
