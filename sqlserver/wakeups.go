package sqlserver

import (
	"cmp"
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Wakeups returns a channel that receives when the queue may have new work.
func (s *Store) Wakeups(queue string) (<-chan struct{}, func()) { return s.common().Wakeups(queue) }

// Wake tells waiting workers of this process that the queue may have new work; those
// of other processes look for it by themselves.
func (s *Store) Wake(queue string) { s.common().Wake(cmp.Or(queue, dibs.DefaultQueue)) }

// look returns a session that reads: the server does not tell whether somebody has committed.
func (s *Store) look(ctx context.Context) *rowstore.Session {
	s.keepClock(ctx)
	return rowstore.NewSession(ctx, conn{s.pool, true}, &s.sql.Dialect)
}

// Figures reports by name what the store's process has counted since it opened the database: the jobs that have waited for
// others, and that it has released or cancelled. Package metrics makes metrics of it.
func (s *Store) Figures(report func(name string, value float64)) {
	if s != nil && s.rows != nil {
		s.rows.Figures(report)
	}
}
