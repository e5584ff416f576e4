package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/waits"
)

// Wait returns a job when it has ended.
func (s *Store) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := s.ready(ctx); err != nil {
		return nil, s.wrap("wait", err)
	}
	return s.waits.Wait(ctx, id)
}

// lookForEnded is the look of s.waits.
func (s *Store) lookForEnded(ctx context.Context, ids []int64) (found waits.Found, err error) {
	err = s.read(ctx, "wait", func(rows *sql.Rows) error {
		j, err := scanJob(rows, s.dialect.Now())
		switch {
		case err != nil:
		case j.State == "":
			found.Missing = append(found.Missing, j.ID)
		default:
			found.Ended = append(found.Ended, j)
		}
		return err
	}, jsonIDs(ids), waits.MaxFound)
	return found, s.wrap("", err)
}
