package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// NoteChange notes what somebody has changed: see dibs.Admin.
func (s *Store) NoteChange(ctx context.Context, c dibs.Change) error {
	if err := checks.NoteChange(&c); err != nil {
		return err
	}
	return s.write(ctx, "note change", func(tx *Session) error {
		now, err := tx.now()
		if err != nil {
			return err
		}
		if err := tx.later("add_audit", c.Who, c.Did, c.What, c.N, now); err != nil {
			return err
		}
		return tx.later("drop_audit", dibs.MaxChanges)
	})
}

// Changes lists what somebody has changed: see dibs.Admin.
func (s *Store) Changes(ctx context.Context, n int) ([]dibs.Change, error) {
	if err := checks.Changes(n); err != nil {
		return nil, err
	}
	all := []dibs.Change{}
	err := s.read(ctx, "audit", func(rows *sql.Rows) error {
		var c dibs.Change
		err := rows.Scan(clock{&c.At}, &c.Who, &c.Did, &c.What, &c.N)
		all = append(all, c)
		return err
	}, n)
	if err != nil {
		return nil, s.wrap("changes", err)
	}
	return all, nil
}
