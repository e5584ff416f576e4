package adopt

import (
	"context"

	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Requeue puts back rows that are dead by the side table alone, with all their attempts
// and their history, and returns the ids of those that were. Rows that have ended by the
// table itself are put back with SQL; without a side table there are no others.
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]int64, error) {
	if !s.plan.SideTable {
		return nil, s.cannot("requeue", "is changed with SQL by those who own it: without a side table, it alone tells what has ended")
	}
	if err := s.usable(s.Queue()); err != nil {
		return nil, err
	}
	if err := checks.IDs(ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	var items []item
	byKey := make(map[string]int64, len(ids))
	for _, id := range ids {
		if key, ok := s.held.key(id); ok {
			byKey[key] = id
			items = append(items, item{Key: sideKey(key)})
		}
	}
	var done []int64
	err := s.write(ctx, func(q adopted.Querier) error {
		rows, err := run(ctx, q, s.do.Requeue, map[string]any{"batch": batch(items)}, scanKey)
		for _, r := range rows {
			done = append(done, byKey[r.key])
		}
		return err
	})
	if err != nil {
		return nil, adopted.Classify("requeue", err)
	}
	s.wakers.wake()
	return done, nil
}
