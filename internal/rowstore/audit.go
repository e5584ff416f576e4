package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// NoteChange notes what somebody has changed: see admin.Admin.
func (s *Store) NoteChange(ctx context.Context, c admin.Change) error {
	if err := checks.NoteChange(&c); err != nil {
		return err
	}
	return s.write(ctx, "note change", func(tx *Session) error {
		tx.later("add_audit", c.Who, c.Did, c.What, c.N, tx.now())
		tx.later("drop_audit", admin.MaxChanges)
		return nil
	})
}
