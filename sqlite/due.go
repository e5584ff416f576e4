package sqlite

import (
	"context"

	"github.com/dibs-queue/dibs/internal/checks"
)

// Due lists those of the queues from which a claim of these kinds may find jobs now.
func (s *Store) Due(ctx context.Context, queues, kinds []string) (due []string, err error) {
	if err := checks.Due(queues, kinds); err != nil {
		return nil, err
	}
	list, err := jsonKinds(kinds)
	if err != nil {
		return nil, err
	}
	err = s.write(ctx, "due", func(tx *session) error {
		due = nil
		if err := tx.sweepIfDue(); err != nil {
			return err
		}
		now, err := tx.now()
		if err != nil {
			return err
		}
		for _, name := range queues {
			q, err := tx.queue(name)
			if err != nil {
				return err
			}
			if q == nil || q.Paused {
				continue
			}
			if found, err := tx.hasWork(name, now, list); err != nil {
				return err
			} else if found {
				due = append(due, name)
			}
		}
		tx.idle++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

// hasWork reports whether a claim of these kinds may find jobs in the queue.
func (s *session) hasWork(queue string, now int64, kinds any) (bool, error) {
	var value int
	found, err := s.one("lanes", []any{queue, -1, now, kinds, 1}, &value)
	if err == nil && !found {
		found, err = s.one("pending", []any{queue, now}, &value)
	}
	return found, err
}
