package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// claimedRow reads the rows of claim.sql and resume.sql, all into the same variables:
// allocating new ones for each row takes longer than all else.
type claimedRow struct {
	queue, worker string
	token         dibs.Token
	limited       bool          // the queue has a concurrency limit
	timeout       time.Duration // the queue's JobTimeout

	to []any // the variables

	id                             pgtype.Int8
	kind, group, unique, until     pgtype.Text
	payload, metadata, errors      []byte
	priority, attempt, excused     pgtype.Int4
	maxAttempts, groupLimit        pgtype.Int4
	runAt, lease, created, claimed pgtype.Timestamptz
	cancel                         pgtype.Bool
}

// scan appends the job of a row; the row has none if nothing was due. Its first columns
// are scanned into before.
func (c *claimedRow) scan(jobs []*dibs.RawJob, scan func(...any) error, before ...any) ([]*dibs.RawJob, error) {
	if c.to == nil {
		c.to = slices.Concat(before, []any{
			&c.id, &c.kind, &c.payload, &c.metadata, &c.priority, &c.runAt, &c.attempt, &c.excused, &c.maxAttempts,
			&c.group, &c.groupLimit, &c.unique, &c.until, &c.lease, &c.cancel, &c.created, &c.claimed, &c.errors,
		})
	}
	if err := scan(c.to...); err != nil || !c.id.Valid {
		return jobs, err
	}
	j := &dibs.RawJob{
		ID: c.id.Int64, Queue: c.queue, Kind: c.kind.String, State: dibs.Running,
		Payload: c.payload, Metadata: c.metadata,
		Priority: int(c.priority.Int32), RunAt: utc(c.runAt),
		Attempt: int(c.attempt.Int32), Excused: int(c.excused.Int32), MaxAttempts: int(c.maxAttempts.Int32),
		Group: c.group.String, UniqueKey: c.unique.String, UniqueUntil: dibs.UniqueUntil(c.until.String),
		Worker: c.worker, Token: c.token, LeaseUntil: utc(c.lease), CancelRequested: c.cancel.Bool,
		CreatedAt: utc(c.created), ClaimedAt: utc(c.claimed), Limited: c.limited, Timeout: c.timeout,
	}
	if c.group.Valid {
		j.GroupLimit = int(c.groupLimit.Int32)
	}
	j.Errors = checks.ReadHistory(c.errors)
	checks.Claimed(j)
	ticks.Read(j)
	return append(jobs, j), nil
}
