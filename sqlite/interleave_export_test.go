package sqlite

import (
	"context"
	"time"
)

// SteadyClock makes the store's clock move by a millisecond with each transaction, and not
// otherwise. The store must not have been used yet.
func (s *Store) SteadyClock() {
	s.sql.text["clock"] = s.sql.named("update dibs_clock set now = now + 1000 where one = 1 returning now, 3600000000")
}

// StopSweeping keeps claims from sweeping by themselves.
func (s *Store) StopSweeping(ctx context.Context) error {
	return s.write(ctx, "test", func(tx *session) error {
		*tx.lastSweep = time.Now().Add(24 * time.Hour)
		return nil
	})
}

// Rewrite changes the text of statements, before they are first used.
func (s *Store) Rewrite(change func(name, text string) string) {
	for name, text := range s.sql.text {
		s.sql.text[name] = change(name, text)
	}
}
