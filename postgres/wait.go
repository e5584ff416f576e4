package postgres

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/waits"
)

// Wait implements dibs.Admin. It needs no connection that a transaction could hold.
func (s *Store) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := s.check(ctx, "wait"); err != nil {
		return nil, err
	}
	return s.waits.Wait(ctx, id)
}

// lookForEnded is the look of s.waits.
func (s *Store) lookForEnded(ctx context.Context, ids []int64) (found waits.Found, err error) {
	err = s.upkeep.run(ctx, step{
		sql: s.sql.get("wait"), args: []any{ids, waits.MaxFound},
		begin: func() { found = waits.Found{} },
		row: func(scan func(...any) error) error {
			j, missing, err := scanJob(scan)
			switch {
			case err != nil:
			case missing:
				found.Missing = append(found.Missing, j.ID)
			default:
				found.Ended = append(found.Ended, j)
			}
			return err
		},
	})
	return found, classify("", err)
}
