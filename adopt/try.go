package adopt

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
)

// Try claims up to n rows as a worker would, in a transaction that it rolls back: what
// it returns is what a handler would get. Meanwhile other claims pass over these rows;
// on SQLite other writers wait. Triggers of the table run, and are rolled back too.
func Try(ctx context.Context, db *sql.DB, m Mapping, n int) ([]*dibs.RawJob, error) {
	var jobs []*dibs.RawJob
	err := trial(ctx, db, m, func(s *Store, q querier) (err error) {
		jobs, err = s.tryClaim(ctx, q, n)
		return err
	})
	return jobs, classify("try", err)
}

func (s *Store) tryClaim(ctx context.Context, q querier, n int) ([]*dibs.RawJob, error) {
	take, err := s.checkClaim(&dibs.ClaimRequest{Worker: "dibs adopt try", N: n})
	if err != nil {
		return nil, err
	}
	rows, err := s.claimIn(ctx, q, take, n)
	if err != nil {
		return nil, err
	}
	return s.jobs(rows, take), nil
}

// trial gives f a store whose side table is there and whose statements have all been
// prepared, in a transaction that is rolled back.
func trial(ctx context.Context, db *sql.DB, m Mapping, f func(*Store, querier) error) error {
	p, err := prepare(ctx, db, m)
	if err != nil {
		return err
	}
	s := &Store{plan: p, db: db}
	s.held.init()
	if s.do, err = p.statements(); err != nil {
		return err
	}
	return s.trial(ctx, func(q querier) error {
		if err := p.prepareAll(ctx, q, s.do); err != nil {
			return err
		}
		return f(s, q)
	})
}

func (s *Store) trial(ctx context.Context, f func(querier) error) error {
	missing, err := s.lacksSideTable(ctx)
	if err != nil {
		return err
	}
	tx, err := s.plan.d.begin(ctx, s.db)
	if err != nil {
		return err
	}
	defer tx.rollback()
	if missing {
		if err := s.makeSideTableIn(ctx, tx); err != nil {
			return err
		}
	}
	return f(tx)
}
