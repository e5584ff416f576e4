package dibs_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestRunEndsWhenTheStoreIsClosed(t *testing.T) {
	needs.Race(t)
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

// A worker with jobs stops their handlers and ends when its store is closed, whatever it was
// about to do: nothing can be written any more.
func TestAWorkerWithJobsEndsWhenItsStoreIsClosed(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for name, concurrency := range map[string]int{"with places left": 10, "with all places taken": 2} {
		t.Run(name, func(t *testing.T) {
			virtualTime(t, func(t *testing.T, m *memory) {
				started := make(chan struct{}, 2)
				release := make(chan struct{})
				w := quiet(m, func(ctx context.Context, job *dibs.RawJob) error {
					started <- struct{}{}
					if job.ID == 1 {
						<-release
						return nil
					}
					return untilEnd(ctx, job)
				})
				w.Concurrency = concurrency
				ended := make(chan error)
				enqueue(t, m, plain(2)...)
				go func() { ended <- w.Run(t.Context()) }()
				<-started
				<-started
				m.setScript(func(context.Context, string) error { return dibs.ErrClosed })
				closed, calls := time.Now(), m.total()
				close(release)
				err := <-ended
				if took := time.Since(closed); took > 2*time.Second {
					t.Errorf("Run ends %v after its store was closed", took)
				}
				if !errors.Is(err, dibs.ErrClosed) || !strings.Contains(err.Error(), "could not be written") {
					t.Errorf("Run gave %v", err)
				}
				if n := m.total() - calls; n > 3 {
					t.Errorf("the worker has called a closed store %d times", n)
				}
			})
		})
	}
}
