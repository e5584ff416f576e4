package adopt

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// seen are rows that were read, as jobs.
func (s *Store) seen(ctx context.Context, rows []*row) ([]*dibs.RawJob, error) {
	known, err := s.lookUp(ctx, rows)
	if err != nil {
		return nil, err
	}
	jobs := make([]*dibs.RawJob, len(rows))
	for i, r := range rows {
		if k := known[r.key]; k != nil {
			r.attempt, r.excused, r.worker, r.errors = k.attempt, k.excused, k.worker, k.errors
			r.since, r.until = k.since, k.until
			if k.runAt.Int64 > 0 {
				r.runAt = k.runAt
			}
		}
		jobs[i] = s.look(r)
	}
	return jobs, nil
}

func (s *Store) look(r *row) *dibs.RawJob {
	job := s.job(r)
	if !r.attempt.Valid {
		job.Attempt = 0
	}
	switch r.state {
	case adopted.StateEnded, adopted.StateElsewhere:
		job.State = dibs.Completed
	case string(dibs.Running):
		job.State = dibs.Running
		if r.since.Valid {
			job.ClaimedAt = time.UnixMicro(r.since.Int64)
		}
		if r.until.Valid {
			job.LeaseUntil = time.UnixMicro(r.until.Int64)
		}
	case adopted.StateLoose:
		job.State, job.Worker = dibs.Waiting, ""
	default:
		job.State, job.Worker = dibs.State(r.state), ""
	}
	return job
}

// lookUp reads what the side table knows of rows.
func (s *Store) lookUp(ctx context.Context, rows []*row) (map[string]*row, error) {
	known := map[string]*row{}
	if !s.plan.SideTable || len(rows) == 0 {
		return known, nil
	}
	items := make([]item, len(rows))
	for i, r := range rows {
		items[i] = item{Key: sideKey(r.key)}
	}
	found, err := run(ctx, s.db, s.do.Look, map[string]any{"batch": batch(items)}, func(rows *sql.Rows) (*row, error) {
		r := &row{}
		var errors string
		err := rows.Scan(&r.key, &r.attempt, &r.excused, &r.worker, &r.since, &r.until, &r.runAt, &errors)
		r.errors = checks.ReadHistory([]byte(errors))
		return r, err
	})
	for _, r := range found {
		known[r.key] = r
	}
	return known, err
}
