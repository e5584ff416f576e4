package advice

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Try claims up to n rows as a worker would, in a transaction that it rolls back: what
// it returns is what a handler would get. Meanwhile other claims pass over these rows;
// on SQLite other writers wait. Triggers of the table run, and are rolled back too.
func Try(ctx context.Context, db *sql.DB, m mapping.Mapping, n int) (jobs []*dibs.RawJob, err error) {
	err = try(ctx, db, m, func(t *trial) error {
		jobs, err = t.claim(ctx, n)
		return err
	})
	return jobs, adopted.Classify("try", err)
}

// subject is a mapping on its table, as the advice looks at it.
type subject struct {
	*adopted.Plan
	of database
}

func subjectOf(p *adopted.Plan) *subject { return &subject{p, databases[p.Dialect.Title]} }

// trial is a transaction that will be rolled back, in which the side table is there.
type trial struct {
	*subject
	adopted.Querier
	tx *adopt.Tx
}

func (t *trial) claim(ctx context.Context, n int) ([]*dibs.RawJob, error) {
	return t.tx.Claim(ctx, dibs.ClaimRequest{Worker: "dibs adopt try", N: n})
}

// try gives f a trial of the mapping, whose statements have all been prepared.
func try(ctx context.Context, db *sql.DB, m mapping.Mapping, f func(*trial) error) error {
	p, err := adopted.Prepare(ctx, db, m)
	if err != nil {
		return err
	}
	missing, err := p.LacksSideTable(ctx, db)
	if err != nil {
		return err
	}
	tx, err := p.Dialect.Begin(ctx, db)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if missing {
		if err := p.MakeSideTable(ctx, tx); err != nil {
			return err
		}
	}
	if err := p.PrepareAll(ctx, tx); err != nil {
		return err
	}
	return f(&trial{subjectOf(p), tx, adopt.Within(p, tx)})
}
