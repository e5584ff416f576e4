package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Use puts middleware around every Enqueue of the store and of its transactions. The stores of databases document it.
func (s *Store) Use(f func(next dibs.EnqueueFunc) dibs.EnqueueFunc) { s.middleware().Use(f) }

func (s *Store) middleware() *checks.Middleware {
	if s == nil {
		return nil
	}
	return &s.around
}

// Enqueue inserts all jobs or none.
func (s *Store) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return s.middleware().Enqueue(ctx, jobs, s.enqueueAlone)
}
