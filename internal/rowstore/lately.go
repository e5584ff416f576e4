package rowstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Failures lists how dead jobs have ended, last died first.
func (s *Store) Failures(ctx context.Context, f dibs.FailureFilter) ([]dibs.Failure, error) {
	before, id, err := checks.Failures(&f)
	if err != nil {
		return nil, err
	}
	list := []dibs.Failure{}
	for _, name := range f.Queues {
		err := s.read(ctx, "failures", func(rows *sql.Rows) error {
			var f dibs.Failure
			err := rows.Scan(&f.ID, text[string]{&f.Queue}, text[string]{&f.Kind}, clock{&f.At}, &f.Attempt, text[string]{&f.Error})
			list = append(list, f)
			return err
		}, name, f.Limit, before.UnixMicro(), id)
		if err != nil {
			return nil, s.wrap("failures", err)
		}
	}
	checks.LastDiedFirst(list)
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
		return dibs.Times{}, s.wrap("times", err)
	}
	return checks.Times(first, waits, runs), nil
}
