package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
)

// namesOf returns the name of a queue, or of all queues if it is empty.
func (s *Store) namesOf(ctx context.Context, queue string) ([]string, error) {
	if queue != "" {
		return []string{queue}, nil
	}
	queues, err := s.Reads().Queues(ctx)
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	return names, err
}

// ensureQueue returns a queue's settings; a queue that does not exist is made.
func (s *Session) ensureQueue(name string) (*queue, error) {
	q, err := s.queue(name)
	if err != nil || q != nil {
		return q, err
	}
	return s.putQueue(dibs.DefaultSettings(name))
}

// putQueue stores a queue's settings.
func (s *Session) putQueue(q dibs.Queue) (*queue, error) {
	s.later("set_queue", q.Name, q.Paused, q.Concurrency, q.GroupLimit, q.Strict, string(q.Order), micro(q.Lease), q.MaxAttempts,
		micro(q.Backoff.Base), q.Backoff.Factor, micro(q.Backoff.Max), q.Backoff.Jitter,
		micro(q.KeepCompleted), micro(q.KeepDead), micro(q.KeepCancelled), q.PayloadLimit,
		q.Rate.N, micro(q.Rate.Per), q.Rate.Burst, s.now(), micro(q.JobTimeout),
		q.GroupRate.N, micro(q.GroupRate.Per), q.GroupRate.Burst)
	delete(s.queues, q.Name)
	return s.queue(q.Name)
}

// SetQueue changes the named settings and returns the result.
func (s *Store) SetQueue(ctx context.Context, name string, c dibs.QueueChange) (dibs.Queue, error) {
	return call(ctx, s, "set queue", checks.Name("queue", name), func(tx *Session) (after dibs.Queue, err error) {
		before, err := tx.settings(name)
		if err == nil {
			after, err = checks.Changed(before, checks.Changer(c))
		}
		if err == nil {
			err = tx.setQueue(before, after)
		}
		return after, err
	})
}

// ChangeQueue has f change a queue's settings: see dibs.Admin.
func (s *Store) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	read := func() (dibs.Queue, error) { return s.settings(ctx, name) }
	return settings.ChangeQueue("change queue", name, f, read, func(before, after dibs.Queue) error {
		return s.write(ctx, "change queue", func(tx *Session) error {
			now, err := tx.settings(name)
			if err := settings.OrStale(now == before, err); err != nil {
				return err
			}
			return tx.setQueue(before, after)
		})
	})
}

// settings are a queue's settings, or those that it would be made with.
func (s *Store) settings(ctx context.Context, name string) (dibs.Queue, error) {
	q := dibs.DefaultSettings(name)
	err := s.read(ctx, "queue", func(rows *sql.Rows) error {
		return rows.Scan(reads.Queue(&q, new(bool))...)
	}, name)
	return q, s.wrap("change queue", err)
}

func (s *Session) settings(name string) (dibs.Queue, error) {
	q, err := s.queue(name)
	if err != nil || q == nil {
		return dibs.DefaultSettings(name), err
	}
	return q.Queue, nil
}

func (s *Session) setQueue(before, after dibs.Queue) error {
	if _, err := s.putQueue(after); err != nil {
		return err
	}
	s.woken[after.Name] = true
	if before.Concurrency == 0 && after.Concurrency > 0 {
		s.later("count_running", after.Name)
	}
	if before.GroupLimit == after.GroupLimit && before.GroupRate == after.GroupRate && before.Strict == after.Strict {
		return nil
	}
	s.later("set_group_rates", after.Name)
	if before.Strict && !after.Strict {
		s.later("unhold", after.Name, s.now())
	}
	if err := s.touchAll(after.Name); err != nil {
		return err
	}
	return s.settle()
}
