package sqlite

import (
	"context"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// The gates of live jobs; docs/design/0001-storage.md explains them.
const (
	gateReady   = 0
	gateBlocked = 1
	gateLater   = 2
	gateCounted = 3
)

// Enqueue inserts all jobs or none.
func (s *Store) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := checkJobs(jobs)
	if err != nil {
		return nil, err
	}
	var done []dibs.Enqueued
	err = s.write(ctx, "enqueue", func(tx *session) (err error) {
		done, err = tx.enqueue(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// checkJobs encodes jobs and checks all but the queues' own payload limits, so that the
// writer need not do it.
func checkJobs(jobs []dibs.NewJob) ([]checks.Row, error) {
	return checks.Jobs(jobs, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
}

func (s *session) enqueue(rows []checks.Row) ([]dibs.Enqueued, error) {
	now, err := s.now()
	if err != nil {
		return nil, err
	}
	if err := s.fit(rows); err != nil {
		return nil, err
	}
	done := make([]dibs.Enqueued, len(rows))
	for i := 0; i < len(rows); {
		n := 1
		if manyWithoutKeys(rows[i:]) {
			n = enqueuedAtOnce
		}
		if err := s.enqueueRows(rows[i:i+n], done[i:i+n], now); err != nil {
			return nil, err
		}
		i += n
	}
	return done, s.settle()
}

// manyWithoutKeys reports whether rows begin with enough jobs for enqueue_many, none of
// which has a unique key.
func manyWithoutKeys(rows []checks.Row) bool {
	return len(rows) >= enqueuedAtOnce &&
		!slices.ContainsFunc(rows[:enqueuedAtOnce], func(r checks.Row) bool { return r.UniqueKey != "" })
}

// fit makes the queues that do not exist yet, and checks their payload limits.
func (s *session) fit(rows []checks.Row) error {
	return checks.CheckPayloads(rows, func(name string) (int, error) {
		q, err := s.ensureQueue(name)
		if err != nil {
			return 0, err
		}
		return q.PayloadLimit, nil
	})
}

// enqueueRows inserts one job, or enqueuedAtOnce of them that have no unique key.
func (s *session) enqueueRows(rows []checks.Row, done []dibs.Enqueued, now int64) error {
	statement := "enqueue_many"
	if len(rows) == 1 {
		statement = "enqueue"
		if key := rows[0].UniqueKey; key != "" {
			found, err := s.one("holder", []any{rows[0].Queue, key}, &done[0].ID)
			if done[0].Existing = found; found || err != nil {
				return err
			}
		}
	}
	s.values = s.values[:0]
	for i := range rows {
		if err := s.enqueueRow(&rows[i], now); err != nil {
			return err
		}
	}
	result, err := s.run(statement, s.values...)
	if err != nil {
		return err
	}
	last, err := result.LastInsertId()
	for i := range done {
		done[i].ID = last - int64(len(done)-1-i) // one statement draws its ids in a row
	}
	return err
}

// enqueueRow adds the parameters of enqueue.sql for a job to s.values, and counts it.
func (s *session) enqueueRow(r *checks.Row, now int64) error {
	q, err := s.queue(r.Queue)
	if err != nil {
		return err
	}
	attempts := r.MaxAttempts
	if attempts == 0 {
		attempts = q.MaxAttempts
	}
	runAt := now + micro(r.Delay)
	if !r.RunAt.IsZero() {
		runAt = max(now, r.RunAt.UnixMicro())
	}
	gate := firstGate(r.Group, runAt, now)
	s.values = append(s.values, r.Queue, r.Kind, r.Priority, runAt, gate, attempts, null(r.Group),
		null(r.UniqueKey), null(string(r.UniqueUntil)), r.UniqueKey != "", now, nullJSON(r.Metadata), string(r.Payload))
	s.count(r.Queue, func(t *tally) { t.enqueued++ })
	s.countArrival(r.Queue, r.Group, gate)
	return nil
}

// firstGate is the gate of a new job that may start at runAt.
func firstGate(group string, runAt, now int64) int {
	switch {
	case group == "":
		return gateReady
	case runAt <= now:
		return gateBlocked
	default:
		return gateLater
	}
}

// countArrival counts a job that now waits at gate, and has its group settled.
func (s *session) countArrival(queue, key string, gate int) {
	s.woken[queue] = true
	s.touch(queue, key)
	s.count(queue, func(t *tally) {
		if gate == gateBlocked {
			t.blocked++
		} else {
			t.waiting++
		}
	})
}
