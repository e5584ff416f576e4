package pgtest

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Sent is a pgx tracer that records every prepared or executed statement.
type Sent struct {
	mu    sync.Mutex
	Texts map[string]bool
}

func (s *Sent) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Texts[text] = true
}

// TraceQueryStart records a single statement.
func (s *Sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.add(d.SQL)
	return ctx
}

// TraceQueryEnd does nothing.
func (s *Sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TracePrepareStart records a prepared statement.
func (s *Sent) TracePrepareStart(ctx context.Context, _ *pgx.Conn, d pgx.TracePrepareStartData) context.Context {
	s.add(d.SQL)
	return ctx
}

// TracePrepareEnd does nothing.
func (s *Sent) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// TraceBatchStart records the statements of a batch.
func (s *Sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	for _, q := range d.Batch.QueuedQueries {
		s.add(q.SQL)
	}
	return ctx
}

// TraceBatchQuery does nothing.
func (s *Sent) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd does nothing.
func (s *Sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
