package pgtest

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Sent is a tracer that notes every statement that is prepared or run through pgx.
type Sent struct {
	mu    sync.Mutex
	Texts map[string]bool
}

func (s *Sent) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Texts[text] = true
}

// TraceQueryStart notes a statement that is run by itself.
func (s *Sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.add(d.SQL)
	return ctx
}

// TraceQueryEnd has nothing to note.
func (s *Sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TracePrepareStart notes a statement that is prepared.
func (s *Sent) TracePrepareStart(ctx context.Context, _ *pgx.Conn, d pgx.TracePrepareStartData) context.Context {
	s.add(d.SQL)
	return ctx
}

// TracePrepareEnd has nothing to note.
func (s *Sent) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// TraceBatchStart notes the statements of a batch.
func (s *Sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	for _, q := range d.Batch.QueuedQueries {
		s.add(q.SQL)
	}
	return ctx
}

// TraceBatchQuery has nothing to note.
func (s *Sent) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd has nothing to note.
func (s *Sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
