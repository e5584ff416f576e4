package postgres

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Use puts middleware around every Enqueue of the store and of its transactions: f gets the
// next function and returns one that calls it. It is called at each Enqueue. What was given
// first is outermost. The jobs are a copy, which it may change; their number must stay. They
// have not been checked. Jobs of schedules do not pass: any program enqueues them when their
// tick comes. Call Use before the store is used.
func (s *Store) Use(f func(next dibs.EnqueueFunc) dibs.EnqueueFunc) { s.middleware().Use(f) }

func (s *Store) middleware() *checks.Middleware {
	if s == nil {
		return nil
	}
	return &s.around
}

// Enqueue implements admin.Database.
func (s *Store) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return s.middleware().Enqueue(ctx, jobs, s.enqueueAndWake)
}
