package torture

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// If the proxy cuts the answer to an enqueue, the client gets ErrUnavailable, but the job exists.
func TestACutAnswerIsUnavailableAndItsJobIsThere(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	direct := pgtest.URL(t)
	if err := postgres.Migrate(ctx, direct, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	p, through, err := newProxy(direct, maxPool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	db, err := postgres.Open(ctx, through, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	enqueue := func() error {
		_, err := db.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
		return err
	}
	own, err := postgres.Open(t.Context(), direct, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	// The cut may also hit the start of a connection, or another connection. Then there is no
	// job, or no error.
	for known := int64(0); ; {
		enqueueErr := enqueue()
		if enqueueErr == nil && known > 0 { // a connection has prepared the statements
			known++
			go p.cut(ctx)
			enqueueErr = enqueue()
		}
		if enqueueErr != nil && !errors.Is(enqueueErr, dibs.ErrUnavailable) {
			t.Fatalf("the client got %v, want ErrUnavailable", enqueueErr)
		}
		stats, err := own.Stats(ctx)
		if err != nil || len(stats) != 1 {
			t.Fatalf("%v, %v; no enqueue without an answer has left a job", stats, err)
		}
		there := stats[0].Waiting
		switch {
		case enqueueErr == nil && there != known+1, there < known, there > known+1:
			t.Fatalf("%d jobs are there, there were %d, and the next enqueue returned: %v", there, known, enqueueErr)
		case enqueueErr != nil && there == known+1:
			return
		}
		known = there
	}
}
