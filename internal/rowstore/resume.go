package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Resume gives a restarted worker the jobs that a worker of the same name still holds.
func (s *Store) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	arguments := checks.Resume(&r)
	ctx = s.nearQueue(ctx, r.Queue)
	return call(ctx, s, "resume", arguments, func(tx *Session) ([]*dibs.RawJob, error) { return tx.resume(r) })
}

func (s *Session) resume(r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	q, err := s.queue(r.Queue)
	if err != nil || q == nil || q.Rate.N > 0 || q.groupRates {
		return nil, err
	}
	c := s.newClaim(q, r.Worker, r.Lease)
	if err := s.each("resume", c.add, r.Queue, r.Worker, c.now, c.token[:], c.until); err != nil || len(c.jobs) == 0 {
		return nil, err
	}
	c.sortFrom(0)
	ids := make([]int64, len(c.jobs))
	for i, j := range c.jobs {
		ids[i] = j.ID
	}
	if err := s.noteLimits(q, c.jobs); err != nil {
		return nil, err
	}
	s.count(q.Name, func(t *tally) { t.claimed += int64(len(ids)) })
	s.logClaim(c, jsonIDs(ids))
	return c.jobs, nil
}
