package adopt

import (
	"context"

	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Requeue puts back rows that are dead in the side table, gives them all their attempts again,
// and keeps their errors. It returns the ids of those that were dead. Rows that have ended in
// the adopted table itself can only be put back with SQL.
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]int64, error) {
	if !s.plan.SideTable {
		return nil, s.cannot("requeue", "has no side table that marks rows as dead: put its rows back with SQL")
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
	if len(items) == 0 {
		return nil, nil
	}
	var done []int64
	err := s.write(ctx, func(q adopted.Querier) error {
		done = nil
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
