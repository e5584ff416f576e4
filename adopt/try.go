package adopt

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
)

// Try claims up to n rows as a worker would, in a transaction that it rolls back: what
// it returns is what a handler would get. Meanwhile other claims pass over these rows;
// on SQLite other writers wait. Triggers of the table run, and are rolled back too.
func Try(ctx context.Context, db *sql.DB, m Mapping, n int) (jobs []*dibs.RawJob, err error) {
	err = try(ctx, db, m, func(t *trial) error {
		jobs, err = t.claim(ctx, n)
		return err
	})
	return jobs, classify("try", err)
}

// subject is a mapping on its table, as the advice looks at it.
type subject struct {
	*plan
	of adviceDatabase
}

func subjectOf(p *plan) *subject { return &subject{p, databases[p.d.folder]} }

// trial is a transaction that will be rolled back, in which the side table is there.
type trial struct {
	*subject
	querier
	tx *Tx
}

func (t *trial) claim(ctx context.Context, n int) ([]*dibs.RawJob, error) {
	return t.tx.Claim(ctx, dibs.ClaimRequest{Worker: "dibs adopt try", N: n})
}

// try gives f a trial of the mapping, whose statements have all been prepared.
func try(ctx context.Context, db *sql.DB, m Mapping, f func(*trial) error) error {
	p, err := prepare(ctx, db, m)
	if err != nil {
		return err
	}
	missing, err := p.lacksSideTable(ctx, db)
	if err != nil {
		return err
	}
	tx, err := p.d.begin(ctx, db)
	if err != nil {
		return err
	}
	defer tx.rollback()
	if missing {
		if err := p.makeSideTable(ctx, tx); err != nil {
			return err
		}
	}
	if err := p.prepareAll(ctx, tx); err != nil {
		return err
	}
	return f(&trial{subjectOf(p), tx, Within(p, tx)})
}
