package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/bucket"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
)

// SetGroup implements dibs.Admin.
func (s *Store) SetGroup(ctx context.Context, queue, group string, c dibs.GroupChange) error {
	if err := s.ready(ctx, "set group", checks.Group(queue, group, c)); err != nil {
		return err
	}
	err := s.upkeep.run(ctx, slices.Concat(s.groupLock(queue), s.useGroups(queue, c), s.groupSteps(queue, group, c))...)
	return wrap("set group", s.groupChanged(ctx, queue, c, err))
}

// ChangeGroup implements dibs.Admin.
func (s *Store) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	read := func() ([]dibs.Group, error) { return s.Groups(ctx, queue) }
	return settings.ChangeGroup(queue, group, f, read, func(old dibs.Group, c dibs.GroupChange) error {
		err := s.transact(ctx, "change group", func(tx conn) error {
			if err := tx.run(ctx, s.groupLock(queue)...); err != nil {
				return err
			}
			list, err := s.readsOn(func(*Store) conn { return tx }).Groups(ctx, queue)
			if err := settings.OrStale(checks.GroupOf(list, group) == old, err); err != nil {
				return err
			}
			return tx.run(ctx, slices.Concat(s.useGroups(queue, c), s.groupSteps(queue, group, c))...)
		})
		if errors.Is(err, settings.ErrStale) {
			return err
		}
		return wrap("change group", s.groupChanged(ctx, queue, c, err))
	})
}

// groupLock keeps others from admitting jobs or changing groups of a queue until the transaction ends.
func (s *Store) groupLock(queue string) []step {
	return []step{waitBriefly, s.step("lock_admit", s.admitKey(queue))}
}

// useGroups makes a queue with groups if it does not exist. If a change gives a group a rate, admissions and claims of
// the queue look for rates of groups from then on. A caller that needs the queue to stay takes groupLock first, as
// deletions of queues do.
func (s *Store) useGroups(queue string, c dibs.GroupChange) []step {
	steps := []step{s.step("add_queue", []string{queue}, []bool{true})}
	if c.Rate != nil && c.Rate.N > 0 {
		steps = append(steps, s.step("use_group_rates", queue))
	}
	return steps
}

func (s *Store) groupSteps(queue, group string, c dibs.GroupChange) (steps []step) {
	if c.Limit != nil {
		steps = append(steps, s.step("set_group", queue, group, *c.Limit))
	}
	if r := c.Rate; r != nil {
		b := bucket.Of(*r)
		steps = append(steps, s.step("set_group_rate", queue, group, r.N, r.Per.Microseconds(), r.Burst, b.Step, b.Slack))
	}
	return append(steps, s.step("wake_group", queue, group))
}

// groupChanged reads the queue's settings again after a change of a group, unless the change failed with err, and wakes
// workers.
func (s *Store) groupChanged(ctx context.Context, queue string, c dibs.GroupChange, err error) error {
	if err == nil {
		_, _, err = s.queue(ctx, queue)
	}
	s.Wake(queue)
	return err
}
