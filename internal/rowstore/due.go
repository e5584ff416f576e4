package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs/internal/checks"
)

// Due lists those of the queues from which a claim of these kinds may find jobs now.
func (s *Store) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	if err := checks.Due(queues, kinds); err != nil {
		return nil, err
	}
	if _, err := s.takeInbox(ctx, 0); err != nil {
		return nil, err
	}
	list, err := jsonNames(kinds)
	return call(ctx, s, "due", err, func(tx *Session) ([]string, error) {
		if err := tx.sweepIfDue(); err != nil {
			return nil, err
		}
		due, err := tx.dueQueues(queues, tx.now(), list)
		if err == nil {
			tx.idle++
		}
		return due, err
	})
}

// dueQueues lists those of the queues from which a claim of these kinds may find jobs.
func (s *Session) dueQueues(queues []string, now int64, kinds any) ([]string, error) {
	list, err := jsonNames(queues)
	if err != nil {
		return nil, err
	}
	return s.names("due_queues", list, now, kinds)
}
