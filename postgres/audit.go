package postgres

import (
	"context"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// NoteChange implements admin.Admin.
func (s *Store) NoteChange(ctx context.Context, c admin.Change) error {
	if err := s.ready(ctx, "note change", checks.NoteChange(&c)); err != nil {
		return err
	}
	return wrap("note change", s.upkeep.run(ctx, s.step("add_audit", c.Who, c.Did, c.What, c.N, admin.MaxChanges)))
}
