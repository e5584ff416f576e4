package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// History counts what happened in each of the last minutes.
func (s *Store) History(ctx context.Context, queues []string, since time.Duration) ([]dibs.Minute, error) {
	all, err := checks.NewMinutes(since, queues)
	if err != nil {
		return nil, err
	}
	names, err := json.Marshal(all.Queues)
	if err != nil {
		return nil, err
	}
	var last time.Time
	all.Begin()
	err = s.read(ctx, "history", func(rows *sql.Rows) error {
		var m dibs.Minute
		var queue *string
		var wait, run int64
		err := rows.Scan(&queue, clock{&m.At}, &m.Enqueued, &m.Claimed, &m.Succeeded, &m.Failed, &m.Died, &wait, &run)
		if queue == nil {
			last = m.At
			return err
		}
		m.Queue = *queue
		all.Add(m, wait, run)
		return err
	}, string(names), all.Before)
	if err != nil {
		return nil, s.wrap("history", err)
	}
	return all.List(last), nil
}
