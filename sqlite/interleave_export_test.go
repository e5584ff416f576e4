package sqlite

import (
	"context"
	"time"
)

// Steady makes the store's clock one that moves by a millisecond with each
// transaction, and not otherwise. It is for a store that nobody has used yet.
func (s *Store) Steady() {
	s.sql.text["clock"] = s.sql.named("update dibs_clock set now = now + 1000 where one = 1 returning now")
}

// Unswept keeps claims from sweeping by themselves.
func (s *Store) Unswept(ctx context.Context) error {
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
