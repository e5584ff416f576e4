package sqlite

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Queues lists all queues by name with their settings.
func (s *Store) Queues(ctx context.Context) ([]dibs.Queue, error) {
	var all []dibs.Queue
	err := s.read(ctx, "queues", func(rows *sql.Rows) error {
		q, err := scanQueue(rows, new(bool))
		all = append(all, q)
		return err
	})
	if err != nil {
		return nil, wrap("queues", err)
	}
	return all, nil
}

func (s *session) allQueues() ([]dibs.Queue, error) {
	var all []dibs.Queue
	err := s.each("queues", func(rows *sql.Rows) error {
		q, err := scanQueue(rows, new(bool))
		all = append(all, q)
		return err
	})
	return all, err
}

// ensureQueue returns a queue's settings; a queue that does not exist is made.
func (s *session) ensureQueue(name string) (*queue, error) {
	q, err := s.queue(name)
	if err != nil || q != nil {
		return q, err
	}
	return s.putQueue(dibs.DefaultSettings(name))
}

// putQueue stores a queue's settings.
func (s *session) putQueue(q dibs.Queue) (*queue, error) {
	now, err := s.now()
	if err != nil {
		return nil, err
	}
	if _, err := s.exec("set_queue", q.Name, q.Paused, q.Concurrency, q.GroupLimit, q.Strict, string(q.Order), micro(q.Lease), q.MaxAttempts,
		micro(q.Backoff.Base), q.Backoff.Factor, micro(q.Backoff.Max), q.Backoff.Jitter,
		micro(q.KeepCompleted), micro(q.KeepDead), micro(q.KeepCancelled), q.PayloadLimit,
		q.Rate.N, micro(q.Rate.Per), q.Rate.Burst, now); err != nil {
		return nil, err
	}
	delete(s.queues, q.Name)
	return s.queue(q.Name)
}

// SetQueue changes the named settings and returns the result.
func (s *Store) SetQueue(ctx context.Context, name string, c dibs.QueueChange) (dibs.Queue, error) {
	var after dibs.Queue
	if err := checks.Name("queue", name); err != nil {
		return after, err
	}
	err := s.write(ctx, "set queue", func(tx *session) (err error) {
		after, err = tx.changeQueue(name, c)
		return err
	})
	if err != nil {
		return dibs.Queue{}, err
	}
	return after, nil
}

func (s *session) changeQueue(name string, c dibs.QueueChange) (dibs.Queue, error) {
	old, err := s.queue(name)
	if err != nil {
		return dibs.Queue{}, err
	}
	before := dibs.DefaultSettings(name)
	if old != nil {
		before = old.Queue
	}
	after := before
	if err := checks.Change(&after, c); err != nil {
		return dibs.Queue{}, err
	}
	return after, s.setQueue(before, after)
}

func (s *session) setQueue(before, after dibs.Queue) error {
	if _, err := s.putQueue(after); err != nil {
		return err
	}
	s.woken[after.Name] = true
	if before.Concurrency == 0 && after.Concurrency > 0 {
		if _, err := s.exec("count_running", after.Name); err != nil {
			return err
		}
	}
	if before.GroupLimit == after.GroupLimit && before.Strict == after.Strict {
		return nil
	}
	if before.Strict && !after.Strict {
		now, err := s.now()
		if err != nil {
			return err
		}
		if _, err := s.exec("unhold", after.Name, now); err != nil {
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
		return nil, wrap("stats", err)
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
