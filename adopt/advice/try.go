package advice

import (
	"context"
	"database/sql"
	"errors"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Try claims up to n rows as a worker would, and returns the jobs that handlers would get. Then
// it rolls the transaction back, with the work of the table's triggers. Meanwhile other claims
// skip these rows; on SQLite other writers wait.
func Try(ctx context.Context, db *sql.DB, m mapping.Mapping, n int) (jobs []*dibs.RawJob, err error) {
	err = try(ctx, db, m, func(t *trial) error {
		jobs, err = t.claim(ctx, n)
		return err
	})
	return jobs, adopted.Classify("try", err)
}

// subject is a mapping with its plan and what the advice knows of the database.
type subject struct {
	*adopted.Plan
	database database
}

func subjectOf(p *adopted.Plan) *subject { return &subject{p, databases[p.Dialect.Title]} }

// trial is a transaction that will be rolled back. In it the side table exists.
type trial struct {
	*subject
	adopted.Querier
	tx *adopt.Tx
}

func (t *trial) claim(ctx context.Context, n int) ([]*dibs.RawJob, error) {
	return t.tx.Claim(ctx, dibs.ClaimRequest{Worker: "dibs adopt try", N: n})
}

// try prepares all statements of the mapping in a trial, calls f with it, and rolls it back.
func try(ctx context.Context, db *sql.DB, m mapping.Mapping, f func(*trial) error) error {
	p, err := adopted.Prepare(ctx, db, m)
	if err != nil {
		return err
	}
	missing, err := p.LacksSideTable(ctx, db)
	if err != nil {
		return err
	}
	return rolledBack(ctx, db, subjectOf(p), func(t *trial) error {
		if missing {
			if err := p.TrySideTable(ctx, t); err != nil {
				return err
			}
		}
		if err := p.PrepareAll(ctx, t); err != nil {
			return err
		}
		return f(t)
	})
}

// rolledBack calls f with a trial, and rolls it back.
func rolledBack(ctx context.Context, db *sql.DB, p *subject, f func(*trial) error) error {
	tx, err := p.Dialect.Begin(ctx, db)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return f(&trial{p, tx, adopt.Within(p.Plan, tx)})
}

// undone calls f and undoes what it has done. If a trigger has ended the whole transaction, the error says so.
func (t *trial) undone(ctx context.Context, f func() error) error {
	var refused error
	err := adopted.InSavepoint(ctx, t, "dibs_undone", func() error {
		if refused = f(); refused == nil {
			return adopted.ErrUndo
		}
		return refused
	})
	switch {
	case errors.Is(err, adopted.ErrEnded) && refused != nil:
		return adopted.Invalid("claim", "%s refuses a claim of a row, and ends the whole transaction: %v; see the table's triggers", t.Dialect.Title, refused)
	case errors.Is(err, adopted.ErrUndo) && !errors.Is(err, adopted.ErrEnded):
		return nil
	}
	return err
}
