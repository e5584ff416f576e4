package postgres

import (
	"context"
	"slices"

	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// DeleteQueue implements dibs.Admin.
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
	return s.remakeIfUsed(ctx, name)
}

// tryDeleteQueue adds to uses what else needs the queue, and deletes it if nothing does, unless it is to keep it.
func (s *Store) tryDeleteQueue(ctx context.Context, name string, ended, keep bool, uses *checks.QueueUses) (deleted bool, err error) {
	found := false
	err = s.upkeep.run(
		ctx, waitBriefly,
		step{sql: s.sql.get("lock_admit"), args: []any{s.admitKey(name)}},
		step{sql: s.sql.get("delete_queue"), args: []any{name, ended, keep}, begin: func() { found, deleted = false, false }, row: func(scan func(...any) error) error {
			err := scan(append([]any{&deleted}, reads.Uses(uses)...)...)
			found = true
			return err
		}},
	)
	if err == nil && !found {
		return false, checks.UnknownQueue(name)
	}
	return deleted, wrap("delete queue", err)
}

// remakeIfUsed makes a deleted queue anew if an enqueue committed just after the deletion had looked.
func (s *Store) remakeIfUsed(ctx context.Context, name string) error {
	var n newQueues
	if err := s.upkeep.run(ctx, n.step(s, name)); err != nil {
		return wrap("delete queue", err)
	}
	if !slices.Contains(n.names, name) {
		return nil
	}
	return n.make(ctx, s)
}
