package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Failures lists how dead jobs have ended, last died first.
func (s *Store) Failures(ctx context.Context, queue string, limit int) ([]dibs.Failure, error) {
	if err := checks.Failures(queue, &limit); err != nil {
		return nil, err
	}
	names, err := s.namesOf(ctx, queue)
	if err != nil {
		return nil, wrap("failures", err)
	}
	list, since := []dibs.Failure{}, int64(math.MinInt64)
	for _, name := range names {
		err := s.read(ctx, "failures", func(rows *sql.Rows) error {
			var f dibs.Failure
			err := rows.Scan(&f.ID, text[string]{&f.Queue}, text[string]{&f.Kind}, clock{&f.At}, &f.Attempt, text[string]{&f.Error})
			list = append(list, f)
			return err
		}, name, limit, since)
		if err != nil {
			return nil, wrap("failures", err)
		}
		slices.SortFunc(list, func(a, b dibs.Failure) int {
			return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID))
		})
		if len(list) >= limit { // of the next queue, only newer ones are listed
			list = list[:limit]
			since = list[limit-1].At.UnixMicro()
		}
	}
	return list, nil
}

// Times computes how long the last completed jobs of a queue waited and ran.
func (s *Store) Times(ctx context.Context, queue string) (dibs.Times, error) {
	if err := checks.Name("queue", queue); err != nil {
		return dibs.Times{}, err
	}
	var first time.Time
	var waits, runs []int64
	err := s.read(ctx, "times", func(rows *sql.Rows) error {
		var wait, run int64
		err := rows.Scan(clock{&first}, &wait, &run)
		waits, runs = append(waits, wait), append(runs, run)
		return err
	}, queue, dibs.TimesOf)
	if err != nil {
		return dibs.Times{}, wrap("times", err)
	}
	return checks.Times(first, waits, runs), nil
}
