package postgres

import (
	"cmp"
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Resume implements dibs.Store.
func (s *Store) Resume(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := s.ready(ctx, "resume", checks.Resume(&r)); err != nil {
		return nil, err
	}
	q, ok, err := s.queue(ctx, r.Queue) // read the lease anew: resume.sql does not check whether it was changed
	if err != nil || !ok || q.Rate.N > 0 || q.groupRates {
		return nil, wrap("resume", err)
	}
	row := claimedRow{queue: r.Queue, worker: r.Worker, token: checks.NewToken(), limited: q.Concurrency > 0, timeout: q.JobTimeout}
	var jobs []*dibs.RawJob
	err = s.db.run(ctx, row.claims(s.step("resume", r.Queue, r.Worker, [16]byte(row.token), cmp.Or(r.Lease, q.Lease).Microseconds()), &jobs))
	if err != nil {
		return nil, wrap("resume", err)
	}
	checks.SortClaimed(jobs, q.Order)
	return jobs, nil
}
