package dibs_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestRunEndsWhenTheStoreIsClosed(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	worker := &dibs.Worker{Store: store}
	worker.HandleRaw("", func(context.Context, *dibs.RawJob) error { return nil })
	if err := worker.Run(t.Context()); !errors.Is(err, dibs.ErrClosed) {
		t.Errorf("Run gave %v, want ErrClosed", err)
	}
}
