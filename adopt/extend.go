package adopt

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Extend is dibs.Store.Extend. Without a timeout column and a side table it moves
// the started-at column to now, and d must not be longer than the mapping's lease. An adopted
// table has no place for progress.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (dibs.Extended, error) {
	leases, err := checks.Extend(leases, d)
	if err != nil {
		return dibs.Extended{}, err
	}
	leases = slices.Clone(leases)
	for i := range leases {
		leases[i].Progress = nil // leases are used as map keys below
	}
	if err := s.usable(s.Queue()); err != nil {
		return dibs.Extended{}, err
	}
	if s.plan.LockOnly() {
		return dibs.Extended{}, adopted.Invalid("lease", "cannot be extended: the mapping names no column that could hold it")
	}
	if d > s.plan.Lease && !s.plan.SideTable && s.plan.Timeout == nil {
		return dibs.Extended{}, adopted.Invalid("lease", "is %v in the mapping; another length needs claim.timeout or the side table", s.plan.Lease)
	}
	defer s.lockFences()()
	var out dibs.Extended
	claims, err := s.findClaims(ctx, s.db, leases)
	if err != nil {
		return out, adopted.Classify("extend", err)
	}
	if err := s.extendable(claims); err != nil {
		return out, err
	}
	sent := time.Now()
	moved, err := s.extendClaims(ctx, leases, claims, d)
	if err != nil {
		return out, adopted.Classify("extend", err)
	}
	// The statement has skipped rows that another transaction has locked. Their leases may still hold.
	var missing []dibs.Lease
	for i, l := range leases {
		c := claims[i]
		switch {
		case c == nil:
			out.Lost = append(out.Lost, l.ID)
		case moved[c.key] == nil:
			missing = append(missing, l)
		default:
			s.held.put(l, &claim{key: c.key, fence: moved[c.key].fence, attempt: c.attempt, most: c.most, until: sent.Add(d)})
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

// lockFences keeps a Finish from using a fence that an Extend is changing, if the start of a
// claim is part of its fence.
func (s *Store) lockFences() func() {
	if s.TokensLast() {
		return func() {}
	}
	s.fences.Lock()
	return s.fences.Unlock
}

func (s *Store) extendClaims(ctx context.Context, leases []dibs.Lease, claims []*claim, d time.Duration) (map[string]*row, error) {
	st, scan := s.do.Extend, scanMarks
	if s.plan.SideTable {
		st, scan = s.do.Move, scanKey
	}
	values := map[string]any{"lease": d.Seconds(), "micros": d.Microseconds()}
	values["batch"] = batch(s.items(leases, claims))
	moved := map[string]*row{}
	err := s.write(ctx, func(q adopted.Querier) error {
		clear(moved)
		rows, err := run(ctx, q, st, values, scan)
		for _, r := range rows {
			moved[r.key] = r
		}
		return err
	})
	return moved, err
}

// items makes a batch of claims, for the table that holds the leases.
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

// findClaims finds the claim of each lease: first among those of this process, then in the
// table. The claim of a lost lease is nil.
func (s *Store) findClaims(ctx context.Context, q adopted.Querier, leases []dibs.Lease) ([]*claim, error) {
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
	if len(unknown) == 0 || s.plan.LockOnly() { // the table does not show row locks
		return claims, nil
	}
	rows, err := s.fetch(ctx, q, unknown)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		i, ok := places[r.key]
		if !ok || r.until.Valid && r.until.Int64 <= r.claimed { // the lease had ended when the row was read
			continue
		}
		if !s.plan.SideTable && s.plan.Marked() && r.state != string(dibs.Running) { // an ended row may still have the values that the claim wrote
			continue
		}
		c := &claim{key: r.key, fence: r.fence, attempt: int(r.attempt.Int64), most: r.limit(), read: true}
		if !r.attempt.Valid {
			c.attempt = 1
		}
		running := r.state == string(dibs.Running)
		if running && (s.plan.SideTable || tokenOf(s.plan, r.fence) == leases[i].Token) {
			claims[i] = c
		}
	}
	return claims, nil
}

func (s *Store) fetch(ctx context.Context, q adopted.Querier, keys []item) ([]*row, error) {
	return run(ctx, q, s.do.Fetch, map[string]any{"batch": batch(keys)}, scanSeen)
}

// stillHeld reports which of the leases that a statement skipped still hold: another
// transaction has locked their rows and not committed.
func (s *Store) stillHeld(ctx context.Context, q adopted.Querier, leases []dibs.Lease) (map[dibs.Lease]bool, error) {
	holds := map[dibs.Lease]bool{}
	if len(leases) == 0 || !s.plan.Dialect.RowLocks { // without row locks no statement skips rows
		return holds, nil
	}
	claims, err := s.findClaims(ctx, q, leases)
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
