package sqlite

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs/internal/rowstore"
)

// SteadyClock makes the store's clock move by a millisecond with each transaction, and not
// otherwise. The store must not have been used yet.
func (s *Store) SteadyClock() {
	s.sql.Statements["clock"] = s.sql.named("update dibs_clock set now = now + 1000 where one = 1 returning now, 3600000000")
}

// StopSweeping keeps claims from sweeping by themselves.
func (s *Store) StopSweeping(ctx context.Context) error {
	return s.writer.calls.Call(ctx, func(*rowstore.Session) error {
		s.writer.memory.Upkeep.LastSweep = time.Now().Add(24 * time.Hour)
		return nil
	})
}

// Rewrite changes the text of statements, before they are first used.
func (s *Store) Rewrite(change func(name, text string) string) {
	for name, text := range s.sql.Statements {
		s.sql.Statements[name] = change(name, text)
	}
}
