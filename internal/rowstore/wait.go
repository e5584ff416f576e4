package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs"
)

// Wait returns a job when it has ended.
func (s *Store) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := s.ready(ctx); err != nil {
		return nil, s.wrap("wait", err)
	}
	return s.waits.Wait(ctx, id)
}
