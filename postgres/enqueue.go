package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Enqueue implements dibs.Store.
func (s *Store) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	out, queues, err := s.enqueue(ctx, jobs, s.db)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		s.Wake(q)
	}
	return out, nil
}

// enqueue inserts through c and returns the queues that got jobs.
func (s *Store) enqueue(ctx context.Context, jobs []dibs.NewJob, c conn) ([]dibs.Enqueued, []string, error) {
	if err := s.check("enqueue"); err != nil {
		return nil, nil, err
	}
	rows, err := checks.Jobs(jobs, func(queue string) (int, error) { return s.payloadLimit(ctx, queue) })
	if err != nil || len(rows) == 0 {
		return []dibs.Enqueued{}, nil, classifyInput("enqueue", err)
	}
	names, grouped := queuesOf(rows)
	if err := s.addQueues(ctx, names, grouped); err != nil {
		return nil, nil, err
	}
	insert := s.insertPlain
	if slices.ContainsFunc(rows, func(r checks.Row) bool { return r.UniqueKey != "" }) {
		insert = s.insertUnique
	}
	out, err := insert(ctx, rows, c)
	if err != nil {
		return nil, nil, classify("enqueue", err)
	}
	for _, r := range rows {
		s.queues.addLane(r.Queue, r.Priority)
	}
	return out, names, nil
}

// classifyInput leaves input errors as they are.
func classifyInput(op string, err error) error {
	if errors.Is(err, dibs.ErrInvalid) {
		return err
	}
	return classify(op, err)
}

func (s *Store) insertPlain(ctx context.Context, rows []checks.Row, c conn) ([]dibs.Enqueued, error) {
	out := make([]dibs.Enqueued, 0, len(rows))
	err := c.run(ctx, step{
		sql:   s.sql.get("enqueue"),
		args:  columns(rows),
		begin: func() { out = out[:0] },
		row: func(scan func(...any) error) error {
			var e dibs.Enqueued
			err := scan(&e.ID)
			out = append(out, e)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	if len(out) != len(rows) {
		return nil, fmt.Errorf("inserted %d of %d jobs: a queue was deleted meanwhile", len(out), len(rows))
	}
	return out, nil
}

// insertUnique inserts what it can, looks up the holders of the keys it met, and
// begins again with those whose holder let go in between.
func (s *Store) insertUnique(ctx context.Context, rows []checks.Row, c conn) ([]dibs.Enqueued, error) {
	out := make([]dibs.Enqueued, len(rows))
	left := make([]int, len(rows)) // places in rows still without an answer
	for i := range left {
		left[i] = i
	}
	const rounds = 20
	for range rounds {
		part := make([]checks.Row, len(left))
		for i, at := range left {
			part[i] = rows[at]
		}
		if err := s.insertAbsent(ctx, part, left, out, c); err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(at int) bool { return out[at].ID != 0 })
		if len(left) == 0 {
			return out, nil
		}
		if err := s.findHolders(ctx, rows, left, out, c); err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(at int) bool { return out[at].ID != 0 })
		if len(left) == 0 {
			return out, nil
		}
	}
	return nil, fmt.Errorf("unique key %q changed hands %d times during one call: %w", rows[left[0]].UniqueKey, rounds, dibs.ErrUnavailable)
}

func (s *Store) insertAbsent(ctx context.Context, part []checks.Row, places []int, out []dibs.Enqueued, c conn) error {
	args := columns(part)
	keys, untils := make([]*string, len(part)), make([]*string, len(part))
	for i := range part {
		if part[i].UniqueKey != "" {
			keys[i], untils[i] = &part[i].UniqueKey, (*string)(&part[i].UniqueUntil)
		}
	}
	return c.run(ctx, step{
		sql:  s.sql.get("enqueue_unique"),
		args: append(args, keys, untils),
		row: func(scan func(...any) error) error {
			var ord int64
			var id *int64
			if err := scan(&ord, &id); err != nil {
				return err
			}
			out[places[ord-1]].ID = 0
			if id != nil {
				out[places[ord-1]].ID = *id
			} else if part[ord-1].UniqueKey == "" {
				return errors.New("a queue was deleted meanwhile")
			}
			return nil
		},
	})
}

func (s *Store) findHolders(ctx context.Context, rows []checks.Row, left []int, out []dibs.Enqueued, c conn) error {
	queues, keys := make([]string, len(left)), make([]string, len(left))
	for i, at := range left {
		queues[i], keys[i] = rows[at].Queue, rows[at].UniqueKey
	}
	return c.run(ctx, step{
		sql:  s.sql.get("holders"),
		args: []any{queues, keys},
		row: func(scan func(...any) error) error {
			var ord, id int64
			err := scan(&ord, &id)
			if err == nil {
				out[left[ord-1]] = dibs.Enqueued{ID: id, Existing: true}
			}
			return err
		},
	})
}

// columns turns rows into the arrays that enqueue.sql takes.
func columns(rows []checks.Row) []any {
	n := len(rows)
	var (
		queue, kind, payload = make([]string, n), make([]string, n), make([]string, n)
		metadata, group      = make([]*string, n), make([]*string, n)
		priority             = make([]int16, n)
		runAt                = make([]*time.Time, n)
		delay                = make([]int64, n)
		attempts             = make([]int32, n)
	)
	for i := range rows {
		r := &rows[i]
		queue[i], kind[i], payload[i] = r.Queue, r.Kind, string(r.Payload)
		priority[i], delay[i], attempts[i] = r.Priority, r.Delay.Microseconds(), int32(r.MaxAttempts)
		if r.Metadata != nil {
			m := string(r.Metadata)
			metadata[i] = &m
		}
		if r.Group != "" {
			group[i] = &r.Group
		}
		if !r.RunAt.IsZero() {
			runAt[i] = &r.RunAt
		}
	}
	return []any{queue, kind, payload, metadata, priority, runAt, delay, attempts, group}
}

// queuesOf lists the queues of a batch, and which get jobs with a group.
func queuesOf(rows []checks.Row) (names []string, grouped []bool) {
	for i := range rows {
		at := slices.Index(names, rows[i].Queue)
		if at < 0 {
			at = len(names)
			names, grouped = append(names, rows[i].Queue), append(grouped, false)
		}
		grouped[at] = grouped[at] || rows[i].Group != ""
	}
	return names, grouped
}
