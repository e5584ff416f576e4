package postgres

import (
	"context"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Due implements dibs.Store: in one round trip, with what a claim does for the clock.
func (s *Store) Due(ctx context.Context, queues, kinds []string) ([]string, error) {
	if err := s.ready(ctx, "due", checks.Due(queues, kinds)); err != nil {
		return nil, err
	}
	var due []string
	err := s.mayWork(ctx)
	if err == nil {
		err = s.andSweep(ctx, func(c claimer) (found bool, err error) {
			due, err = s.dueQueues(ctx, queues, kinds, c)
			return false, err
		})
	}
	if err != nil {
		return nil, wrap("due", err)
	}
	return due, nil
}

// dueQueues looks for due jobs where claims would: in each lane, from its mark on.
func (s *Store) dueQueues(ctx context.Context, queues, kindsAsked []string, c claimer) (due []string, err error) {
	var ask, names []string // ask names the queue of each range
	var ranges laneRanges
	var known []string
	for _, name := range queues {
		q, cached := s.queues.get(name)
		lanes := s.queues.lanesOf(name)
		if lanes.mustLearn() {
			q.Name = name
			if err := s.learnLanes(ctx, q, lanes); err != nil {
				return nil, err
			}
		}
		var at map[int16]mark
		if ok := true; cached && !q.grouped && q.Order == dibs.FIFO {
			if at, ok = lanes.marks(kindsAsked).holds(); !ok {
				known = append(known, name)
				continue
			}
		}
		before := len(ranges.access)
		lanes.ranges(dibs.FIFO, at, &ranges)
		for range len(ranges.access) - before {
			ask = append(ask, name)
		}
		names = append(names, name)
	}
	look := column(s.step("due_queues", append([]any{names, kinds(kindsAsked), ask}, ranges.args()...)...), &due)
	err = c.run(ctx, append(c.clockSteps(s), look)...)
	return append(due, known...), err
}
