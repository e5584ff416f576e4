package torture

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// What a client is told when its answer is held back, and what is there all the same.
func TestACutAnswerIsUnavailableAndItsJobIsThere(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	direct := pgtest.URL(t)
	if err := postgres.Migrate(ctx, direct, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	p, through, err := newProxy(direct, mostPool)
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
	if err := enqueue(); err != nil { // and so prepare the statements
		t.Fatal(err)
	}
	go func() {
		for p.cut(ctx) { // the first may hit another connection of the store's
		}
	}()
	enqueued := 1
	for ; err == nil; enqueued++ { // until the cut stands and finds an answer
		err = enqueue()
	}
	if !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("the client is told %v, want ErrUnavailable", err)
	}
	stop()
	db.Close()
	db, err = postgres.Open(t.Context(), direct, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stats, err := db.Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Waiting != int64(enqueued) {
		t.Errorf("%+v, %v; want %d jobs: the one whose answer was cut too", stats, err, enqueued)
	}
}
