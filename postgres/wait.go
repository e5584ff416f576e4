package postgres

import (
	"context"

	"github.com/dibs-queue/dibs"
)

// Wait implements dibs.Database. It needs no connection that a transaction could hold.
func (s *Store) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := s.ready(ctx, "wait"); err != nil {
		return nil, err
	}
	return s.waits.Wait(ctx, id)
}
