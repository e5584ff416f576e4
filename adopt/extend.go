package adopt

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Extend is dibs.Store.Extend. Without a timeout column and a side table it moves
// the started-at column to now, and d must not be longer than the mapping's lease.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	if err := checks.Extend(leases, d); err != nil {
		return dibs.Extended{}, err
	}
	if err := s.usable(s.Queue()); err != nil {
		return dibs.Extended{}, err
	}
	if s.plan.LockOnly() {
		return dibs.Extended{}, adopted.Invalid("lease", "cannot be extended: the mapping names nothing to write it to")
	}
	if d > s.plan.Lease && !s.plan.SideTable && s.plan.Timeout == nil {
		return dibs.Extended{}, adopted.Invalid("lease", "is %v by the mapping; another length needs claim.timeout or the side table", s.plan.Lease)
	}
	defer s.alone()()
	var out dibs.Extended
	claims, err := s.find(ctx, s.db, leases)
	if err != nil {
		return out, adopted.Classify("extend", err)
	}
	if err := s.extendable(leases, claims); err != nil {
		return out, err
	}
	sent := time.Now()
	moved, err := s.move(ctx, leases, claims, d)
	if err != nil {
		return out, adopted.Classify("extend", err)
	}
	// A row that somebody has locked just now was passed over. It is not lost; ask again.
	var missing []dibs.Lease
	for i, l := range leases {
		c := claims[i]
		switch {
		case c == nil:
			out.Lost = append(out.Lost, l.ID)
		case moved[c.key] == nil:
			missing = append(missing, l)
		default:
			s.held.put(l, &claim{key: c.key, fence: moved[c.key].fence, attempt: c.attempt, until: sent.Add(d)})
		}
	}
	locked, err := s.stillHeld(ctx, s.db, missing)
	if err != nil {
		return out, adopted.Classify("extend", err)
	}
	for _, l := range missing {
		if locked[l] {
			out.Finishing = append(out.Finishing, l.ID)
			continue
		}
		out.Lost = append(out.Lost, l.ID)
		s.held.drop(l)
	}
	return out, nil
}

// alone keeps a Finish from naming what an Extend is just changing, where a lease
// is extended by moving a value that fences it.
func (s *Store) alone() func() {
	if s.TokensLast() {
		return func() {}
	}
	s.moving.Lock()
	return s.moving.Unlock
}

func (s *Store) move(ctx context.Context, leases []dibs.Lease, claims []*claim, d time.Duration) (map[string]*row, error) {
	st, scan := s.do.Extend, scanMarks
	if s.plan.SideTable {
		st, scan = s.do.Move, scanKey
	}
	values := map[string]any{"lease": d.Seconds(), "micros": d.Microseconds()}
	values["batch"] = batch(s.items(leases, claims))
	moved := map[string]*row{}
	err := s.write(ctx, func(q adopted.Querier) error {
		rows, err := run(ctx, q, st, values, scan)
		for _, r := range rows {
			moved[r.key] = r
		}
		return err
	})
	return moved, err
}

// items name claims for a statement: on the side table, or on the table itself.
func (s *Store) items(leases []dibs.Lease, claims []*claim) []item {
	items := []item{}
	for i, c := range claims {
		switch {
		case c == nil:
		case s.plan.SideTable:
			items = append(items, item{Key: sideKey(c.key), Token: leases[i].Token.String()})
		default:
			items = append(items, item{Key: json.RawMessage(c.key), Fence: json.RawMessage(c.fence)})
		}
	}
	return items
}

// find finds what the leases stand for: claims of this process, and by a look at
// the table those of others. What is lost is nil.
func (s *Store) find(ctx context.Context, q adopted.Querier, leases []dibs.Lease) ([]*claim, error) {
	claims := make([]*claim, len(leases))
	var unknown []item
	places := map[string]int{}
	for i, l := range leases {
		if claims[i] = s.held.get(l); claims[i] != nil {
			continue
		}
		if key, ok := s.held.key(l.ID); ok {
			unknown = append(unknown, item{Key: json.RawMessage(key)})
			places[key] = i
		}
	}
	if len(unknown) == 0 || s.plan.LockOnly() { // nothing in the table tells of a lock
		return claims, nil
	}
	rows, err := s.fetch(ctx, q, unknown)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		i, ok := places[r.key]
		if !ok || r.until.Valid && r.until.Int64 <= r.claimed { // when it was read, the lease was over
			continue
		}
		if !s.plan.SideTable && s.plan.Marked() && r.state != string(dibs.Running) { // it may still carry what the claim wrote
			continue
		}
		c := &claim{key: r.key, fence: r.fence, attempt: int(r.attempt.Int64)}
		if !r.attempt.Valid {
			c.attempt = 1
		}
		running := r.state == string(dibs.Running) // a row that has ended may still hold the values
		if running && (s.plan.SideTable || tokenOf(s.plan, r.fence) == leases[i].Token) {
			claims[i] = c
		}
	}
	return claims, nil
}

func (s *Store) fetch(ctx context.Context, q adopted.Querier, keys []item) ([]*row, error) {
	return run(ctx, q, s.do.Fetch, map[string]any{"batch": batch(keys)}, scanSeen)
}

// stillHeld tells, of leases that a statement passed over, which ones hold: their
// rows are locked by somebody, who has not committed.
func (s *Store) stillHeld(ctx context.Context, q adopted.Querier, leases []dibs.Lease) (map[dibs.Lease]bool, error) {
	holds := map[dibs.Lease]bool{}
	if len(leases) == 0 || !s.plan.Dialect.RowLocks { // then nothing is passed over
		return holds, nil
	}
	claims, err := s.find(ctx, q, leases)
	if err != nil {
		return nil, err
	}
	values := map[string]any{"batch": batch(s.items(leases, claims))}
	rows, err := run(ctx, q, s.do.Holds, values, scanKey)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for _, r := range rows {
		held[r.key] = true
	}
	for i, l := range leases {
		holds[l] = claims[i] != nil && held[claims[i].key]
	}
	return holds, nil
}
