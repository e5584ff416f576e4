package rowstore

import (
	"context"

	"github.com/dibs-queue/dibs/internal/checks"
)

// Due lists those of the queues from which a claim of these kinds may find jobs now.
func (s *Store) Due(ctx context.Context, queues, kinds []string) (due []string, err error) {
	if err := checks.Due(queues, kinds); err != nil {
		return nil, err
	}
	list, err := jsonNames(kinds)
	if err != nil {
		return nil, err
	}
	err = s.write(ctx, "due", func(tx *Session) error {
		if err := tx.sweepIfDue(); err != nil {
			return err
		}
		now, err := tx.now()
		if err != nil {
			return err
		}
		if due, err = tx.DueQueues(queues, now, list); err != nil {
			return err
		}
		tx.idle++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

// DueQueues lists those of the queues from which a claim of these kinds may find jobs.
func (s *Session) DueQueues(queues []string, now int64, kinds any) ([]string, error) {
	list, err := jsonNames(queues)
	if err != nil {
		return nil, err
	}
	return s.names("due_queues", list, now, kinds)
}
