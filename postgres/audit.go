package postgres

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// NoteChange implements dibs.Admin.
func (s *Store) NoteChange(ctx context.Context, c dibs.Change) error {
	if err := s.check(ctx, "note change", checks.NoteChange(&c)); err != nil {
		return err
	}
	return classify("note change", s.upkeep.run(ctx, step{sql: s.sql.get("add_audit"), args: []any{c.Who, c.Did, c.What, c.N, dibs.MaxChanges}}))
}

// Changes implements dibs.Admin.
func (s *Store) Changes(ctx context.Context, n int) ([]dibs.Change, error) {
	if err := s.check(ctx, "changes"); err != nil {
		return nil, err
	}
	if err := checks.Changes(n); err != nil {
		return nil, err
	}
	var all []dibs.Change
	err := s.db.run(ctx, step{sql: s.sql.get("audit"), args: []any{n}, begin: func() { all = []dibs.Change{} }, row: func(scan func(...any) error) error {
		var c dibs.Change
		err := scan(&c.At, &c.Who, &c.Did, &c.What, &c.N)
		all = append(all, c)
		return err
	}})
	if err != nil {
		return nil, classify("changes", err)
	}
	return all, nil
}
