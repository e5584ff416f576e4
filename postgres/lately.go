package postgres

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Failures implements dibs.Admin.
func (s *Store) Failures(ctx context.Context, f dibs.FailureFilter) ([]dibs.Failure, error) {
	if err := s.check(ctx, "failures"); err != nil {
		return nil, err
	}
	before, id, err := checks.Failures(&f)
	if err != nil {
		return nil, err
	}
	var list []dibs.Failure
	err = s.db.run(ctx, step{
		sql: s.sql.get("failures"), args: []any{f.Queues, f.Limit, before, id},
		begin: func() { list = []dibs.Failure{} },
		row: func(scan func(...any) error) error {
			var f dibs.Failure
			err := scan(&f.ID, &f.Queue, &f.Kind, &f.At, &f.Attempt, &f.Error)
			f.At = f.At.UTC()
			list = append(list, f)
			return err
		},
	})
	if err != nil {
		return nil, classify("failures", err)
	}
	checks.LastDiedFirst(list)
	return list, nil
}

// Times implements dibs.Admin.
func (s *Store) Times(ctx context.Context, queue string) (dibs.Times, error) {
	if err := s.check(ctx, "times"); err != nil {
		return dibs.Times{}, err
	}
	if err := checks.Name("queue", queue); err != nil {
		return dibs.Times{}, err
	}
	var first time.Time
	var waits, runs []int64
	err := s.db.run(ctx, step{
		sql: s.sql.get("times"), args: []any{queue, dibs.TimesOf},
		begin: func() { waits, runs = nil, nil },
		row: func(scan func(...any) error) error {
			var wait, run int64
			err := scan(&first, &wait, &run)
			waits, runs = append(waits, wait), append(runs, run)
			return err
		},
	})
	if err != nil {
		return dibs.Times{}, classify("times", err)
	}
	return checks.Times(first, waits, runs), nil
}
