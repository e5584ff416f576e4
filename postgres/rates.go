package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/bucket"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/settings"
)

// ChangeGroup implements dibs.Database.
func (s *Store) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	read := func() (dibs.Group, error) { return s.reads().Group(ctx, queue, group) }
	return settings.ChangeGroup(queue, group, f, read, func(before, after dibs.Group) error {
		err := s.transact(ctx, "change group", func(tx conn) error { return s.writeGroup(ctx, tx, queue, before, after) })
		if errors.Is(err, settings.ErrStale) {
			return err
		}
		return wrap("change group", s.groupChanged(ctx, queue, err))
	})
}

// writeGroup stores the settings of a group in a transaction, if it still has those before.
func (s *Store) writeGroup(ctx context.Context, tx conn, queue string, before, after dibs.Group) error {
	if err := tx.run(ctx, append([]step{waitBriefly, s.groupTurn(queue, before.Name)}, s.groupLock(queue)...)...); err != nil {
		return err
	}
	now, err := s.readsOn(func(*Store) conn { return tx }).Group(ctx, queue, before.Name)
	if err := settings.OrStale(now == before, err); err != nil {
		return err
	}
	return tx.run(ctx, slices.Concat(s.useGroups(queue, after), s.groupSteps(queue, before, after))...)
}

var lockGroup = qualify.Text("select pg_advisory_xact_lock($1)")

// groupTurn keeps others from changing the settings of a group until the transaction ends, so that of two open
// transactions the second reads what the first has set. Without this turn, that would stay where the second sets what
// was there before.
func (s *Store) groupTurn(queue, group string) step {
	return step{sql: lockGroup, args: []any{lockKey(s.o.schema(), "group", queue+" "+group)}}
}

// groupLock keeps others from admitting jobs or changing groups of a queue until the transaction ends.
func (s *Store) groupLock(queue string) []step {
	return []step{waitBriefly, s.step("lock_admit", s.admitKey(queue))}
}

// useGroups makes a queue with groups if it does not exist. If the group has a rate, admissions and claims of
// the queue look for rates of groups from then on. A caller that needs the queue to stay takes groupLock first, as
// deletions of queues do.
func (s *Store) useGroups(queue string, g dibs.Group) []step {
	steps := []step{s.step("add_queue", []string{queue}, []bool{true})}
	if g.Rate.N > 0 {
		steps = append(steps, s.step("use_group_rates", queue))
	}
	return steps
}

func (s *Store) groupSteps(queue string, before, after dibs.Group) (steps []step) {
	if after.Limit != before.Limit {
		steps = append(steps, s.step("set_group", queue, after.Name, after.Limit))
	}
	if r := after.Rate; r != before.Rate {
		b := bucket.Of(r)
		steps = append(steps, s.step("set_group_rate", queue, after.Name, r.N, r.Per.Microseconds(), r.Burst, b.Step, b.Slack))
	}
	return append(steps, s.step("wake_group", queue, after.Name))
}

// groupChanged reads the queue's settings again after a change of a group, unless the change failed with err, and wakes
// workers.
func (s *Store) groupChanged(ctx context.Context, queue string, err error) error {
	if err == nil {
		_, _, err = s.queue(ctx, queue)
	}
	s.Wake(queue)
	return err
}
