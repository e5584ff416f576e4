package postgres

import (
	"context"
	"slices"

	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// DeleteQueue implements admin.Admin.
func (s *Store) DeleteQueue(ctx context.Context, name string, ended bool) error {
	if err := s.ready(ctx, "delete queue", checks.Name("queue", name)); err != nil {
		return err
	}
	uses, err := checks.UsersOfQueue(ctx, s, name)
	if err != nil {
		return err
	}
	if ended {
		left := uses
		if _, err := s.tryDeleteQueue(ctx, name, ended, true, &left); err != nil {
			return err
		}
		left.Ended = 0
		if err := left.InUse(name); err != nil {
			return err
		}
		if _, err := s.Prune(ctx, name, "", 0); err != nil {
			return err
		}
	}
	deleted, err := s.tryDeleteQueue(ctx, name, ended, uses.InUse(name) != nil, &uses)
	if err != nil {
		return err
	}
	if err := uses.InUse(name); !deleted && err != nil {
		return err
	}
	s.queues.drop(name)
	return s.addNewQueues(ctx, name) // an enqueue may have committed just after the deletion had looked for jobs
}

// tryDeleteQueue adds to uses what else needs the queue. It deletes the queue if nothing does and keep is false.
func (s *Store) tryDeleteQueue(ctx context.Context, name string, ended, keep bool, uses *checks.QueueUses) (deleted bool, err error) {
	var tried []bool
	try := collect(s.step("delete_queue", name, ended, keep), &tried, func(deleted *bool) []any { return append([]any{deleted}, reads.Uses(uses)...) })
	err = s.upkeep.run(ctx, append(s.groupLock(name), try)...)
	if err == nil && len(tried) == 0 {
		return false, checks.UnknownQueue(name)
	}
	return slices.Contains(tried, true), wrap("delete queue", err)
}
