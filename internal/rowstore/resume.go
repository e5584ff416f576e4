package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Resume gives a restarted worker the jobs that a worker of the same name still holds.
func (s *Store) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	arguments := checks.Resume(&r)
	return call(ctx, s, "resume", arguments, func(tx *Session) ([]*dibs.RawJob, error) { return tx.resume(r) })
}

func (s *Session) resume(r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	q, err := s.queue(r.Queue)
	if err != nil || q == nil || q.Rate.N > 0 || q.groupRates {
		return nil, err
	}
	c, err := s.newClaim(q, r.Worker, r.Lease)
	if err != nil {
		return nil, err
	}
	old, err := s.claimRows("worker_claims", r.Queue, r.Worker)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, o := range old {
		for _, id := range o.ids {
			before := len(c.jobs)
			if err := s.each("resume", c.add, id, o.token[:], c.now, c.token[:], c.until); err != nil {
				return nil, err
			}
			if len(c.jobs) > before {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	c.sortFrom(0)
	for _, j := range c.jobs {
		if j.GroupLimit, err = s.groupLimit(q, j.Group); err != nil {
			return nil, err
		}
	}
	s.count(q.Name, func(t *tally) { t.claimed += int64(len(ids)) })
	return c.jobs, s.logClaim(c, jsonIDs(ids))
}
