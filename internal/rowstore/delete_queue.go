package rowstore

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// DeleteQueue deletes a queue that nothing needs: see admin.Admin.
func (s *Store) DeleteQueue(ctx context.Context, name string, ended bool) error {
	if err := checks.Name("queue", name); err != nil {
		return err
	}
	users, err := checks.UsersOfQueue(ctx, s.Reads(), name)
	if err != nil {
		return err
	}
	if ended {
		if known, err := s.Reads().Queues(ctx, name); err != nil || len(known) == 0 {
			return cmp.Or(err, checks.UnknownQueue(name))
		}
		left := users
		if err := s.readUses(ctx, name, &left); err != nil {
			return err
		}
		left.Ended, left.KeyUntil = 0, time.Time{}
		if err := left.InUse(name); err != nil {
			return err
		}
		for _, state := range finalStates { // each state has transactions of its own, as there may be many jobs
			if _, err := s.pruneAll(ctx, name, state, 0); err != nil {
				return err
			}
		}
	}
	return s.write(ctx, "delete queue", func(tx *Session) error { return tx.deleteQueue(name, ended, users) })
}

// deleteQueue looks for uses of the queue and deletes it in one write transaction. An enqueue comes before that, so
// its jobs are found, or after it, and then makes the queue anew. If others write at the same time, a turn keeps the
// two apart.
func (s *Session) deleteQueue(name string, ended bool, uses checks.QueueUses) error {
	if got, err := s.turn(TurnQueue, name, false); err != nil || !got {
		return cmp.Or(err, checks.QueueFilling(name))
	}
	q, err := s.queue(name)
	if err != nil {
		return err
	}
	if q == nil {
		return checks.UnknownQueue(name)
	}
	if err := s.each("queue_uses", scanUses(&uses), name, s.now()); err != nil {
		return err
	}
	if ended {
		uses.KeyUntil = time.Time{}
	}
	if err := uses.InUse(name); err != nil {
		return err
	}
	if err := s.WriteTally(); err != nil { // write the counts of this transaction, so that they are deleted, too
		return err
	}
	gone := []string{"drop_queue", "drop_queue_groups", "drop_queue_rates", "drop_queue_reached", "drop_queue_keys", "drop_queue_tally"}
	if s.concurrent() {
		gone = append(gone, "drop_queue_wakes", "drop_queue_starts")
		if !s.counted() {
			gone = append(gone, "drop_queue_limits_set")
		}
	}
	for _, statement := range gone {
		s.later(statement, name)
	}
	delete(s.queues, name)
	return nil
}

// readUses adds to uses what else needs a queue now, by the system's clock.
func (s *Store) readUses(ctx context.Context, name string, uses *checks.QueueUses) error {
	return s.wrap("delete queue", s.read(ctx, "queue_uses", scanUses(uses), name, s.now()))
}

func scanUses(uses *checks.QueueUses) func(*sql.Rows) error {
	return func(rows *sql.Rows) error { return rows.Scan(reads.Uses(uses)...) }
}
