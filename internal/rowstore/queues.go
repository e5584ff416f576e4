package rowstore

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
)

// Queues lists queues by name with their settings: all, or those of the names that there are.
func (s *Store) Queues(ctx context.Context, names ...string) ([]dibs.Queue, error) {
	var all []dibs.Queue
	add := func(rows *sql.Rows) error {
		q, err := scanQueue(rows, new(bool))
		all = append(all, q)
		return err
	}
	err := s.ready(ctx) // as no name may be left to read
	if err == nil && len(names) == 0 {
		err = s.read(ctx, "queues", add)
	}
	for _, name := range checks.QueueNames(names) {
		if err == nil {
			err = s.read(ctx, "queue", add, name)
		}
	}
	if err != nil {
		return nil, s.wrap("queues", err)
	}
	return all, nil
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
	now, err := s.now()
	if err != nil {
		return nil, err
	}
	if err := s.later("set_queue", q.Name, q.Paused, q.Concurrency, q.GroupLimit, q.Strict, string(q.Order), micro(q.Lease), q.MaxAttempts,
		micro(q.Backoff.Base), q.Backoff.Factor, micro(q.Backoff.Max), q.Backoff.Jitter,
		micro(q.KeepCompleted), micro(q.KeepDead), micro(q.KeepCancelled), q.PayloadLimit,
		q.Rate.N, micro(q.Rate.Per), q.Rate.Burst, now, micro(q.JobTimeout),
		q.GroupRate.N, micro(q.GroupRate.Per), q.GroupRate.Burst); err != nil {
		return nil, err
	}
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
	err := s.read(ctx, "queue", func(rows *sql.Rows) (err error) {
		q, err = scanQueue(rows, new(bool))
		return err
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
		if err := s.later("count_running", after.Name); err != nil {
			return err
		}
	}
	if before.GroupLimit == after.GroupLimit && before.GroupRate == after.GroupRate && before.Strict == after.Strict {
		return nil
	}
	if err := s.later("set_group_rates", after.Name); err != nil {
		return err
	}
	if before.Strict && !after.Strict {
		now, err := s.now()
		if err != nil {
			return err
		}
		if err := s.later("unhold", after.Name, now); err != nil {
			return err
		}
	}
	if err := s.touchAll(after.Name); err != nil {
		return err
	}
	return s.settle()
}

// Stats counts every queue, by name.
func (s *Store) Stats(ctx context.Context) ([]dibs.QueueStats, error) {
	var all []dibs.QueueStats
	err := s.read(ctx, "stats", func(rows *sql.Rows) error {
		q, err := scanStats(rows)
		all = append(all, q)
		return err
	}, dibs.ScheduledCap+1, windowMinutes)
	if err == nil {
		err = s.readHeld(ctx, all)
	}
	if err != nil {
		return nil, s.wrap("stats", err)
	}
	return all, nil
}

func scanStats(rows *sql.Rows) (dibs.QueueStats, error) {
	var q dibs.QueueStats
	var age, window, wait, run int64
	err := rows.Scan(&q.Queue, &q.Paused, &q.Waiting, &q.Scheduled, &q.Blocked, &q.Running, &q.Completed, &q.Dead, &q.Cancelled,
		&age, &window, &q.Enqueued, &q.Claimed, &q.Succeeded, &q.Failed, &wait, &run)
	if q.Scheduled > dibs.ScheduledCap {
		q.Scheduled, q.ScheduledMore = dibs.ScheduledCap, true
	}
	q.OldestAge, q.Window = fromMicroDuration(age), fromMicroDuration(window)
	checks.Counts(&q)
	if q.Claimed > 0 {
		q.AvgWait = fromMicroDuration(wait / q.Claimed)
	}
	if n := q.Succeeded + q.Failed; n > 0 {
		q.AvgRun = fromMicroDuration(run / n)
	}
	if q.Window > 0 {
		q.Throughput = float64(q.Succeeded) / q.Window.Seconds()
	}
	return q, err
}
