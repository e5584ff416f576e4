package postgres

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// History implements dibs.Admin.
func (s *Store) History(ctx context.Context, queues []string, since time.Duration) ([]dibs.Minute, error) {
	if err := s.check(ctx, "history"); err != nil {
		return nil, err
	}
	all, err := checks.NewMinutes(since, queues)
	if err != nil {
		return nil, err
	}
	var last time.Time
	err = s.db.run(ctx, step{sql: s.sql.get("history"), args: []any{all.Queues, all.Before}, begin: all.Begin, row: func(scan func(...any) error) error {
		var m dibs.Minute
		var queue *string
		var wait, run int64
		err := scan(&queue, &m.At, &m.Enqueued, &m.Claimed, &m.Succeeded, &m.Failed, &m.Died, &wait, &run)
		if queue == nil {
			last = m.At
			return err
		}
		m.Queue = *queue
		all.Add(m, wait, run)
		return err
	}})
	if err != nil {
		return nil, classify("history", err)
	}
	return all.List(last), nil
}
