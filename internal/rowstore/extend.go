package rowstore

import (
	"bytes"
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// extendAtOnce is how many leases one transaction extends, so that other calls need not wait for long.
const extendAtOnce = 500

// Extend makes the named leases end d from now.
func (s *Store) Extend(ctx context.Context, leases []dibs.Lease, d time.Duration) (all dibs.Extended, err error) {
	leases, refused := checks.Extend(leases, d)
	if len(leases) > 0 {
		ctx = s.nearClaim(ctx, leases[0].Token)
	}
	for rest := leases; ; rest = rest[extendAtOnce:] {
		some := rest[:min(len(rest), extendAtOnce)]
		e, err := s.extendSome(ctx, some, d, refused)
		if err != nil {
			return dibs.Extended{}, err
		}
		all.Lost, all.Cancelled = append(all.Lost, e.Lost...), append(all.Cancelled, e.Cancelled...)
		all.TimedOut, all.Finishing = append(all.TimedOut, e.TimedOut...), append(all.Finishing, e.Finishing...)
		if len(rest) <= extendAtOnce {
			return all, nil
		}
	}
}

// extendSome extends leases in one transaction. On a server, not only a transaction that finishes a job locks its row, so it
// tries again for a moment before it says that a job is finishing.
func (s *Store) extendSome(ctx context.Context, leases []dibs.Lease, d time.Duration, refused error) (all dibs.Extended, err error) {
	for began := time.Now(); ; time.Sleep(busyPause) {
		e, err := call(ctx, s, "extend", refused, func(tx *Session) (dibs.Extended, error) { return tx.extend(leases, d) })
		if err != nil {
			return dibs.Extended{}, err
		}
		all.Lost, all.Cancelled = append(all.Lost, e.Lost...), append(all.Cancelled, e.Cancelled...)
		all.TimedOut = append(all.TimedOut, e.TimedOut...)
		if all.Finishing = e.Finishing; len(e.Finishing) == 0 || time.Since(began) > busyFor || ctx.Err() != nil ||
			s.concurrent() == nil || s.concurrent().Patience == 0 {
			return all, nil
		}
		leases = slices.DeleteFunc(slices.Clone(leases), func(l dibs.Lease) bool { return !slices.Contains(e.Finishing, l.ID) })
	}
}

func (s *Session) extend(leases []dibs.Lease, d time.Duration) (e dibs.Extended, err error) {
	now := s.now()
	until := now + micro(d)
	rows := slices.Clone(leases)
	for i, l := range leases {
		if l.Progress != nil {
			p := *l.Progress
			p.At = fromMicro(now)
			rows[i].Progress = &p
		}
	}
	held := make(map[int64]extended, len(leases))
	for list := range lists(rows) {
		err := s.each("extend", func(rows *sql.Rows) error {
			var id int64
			var l extended
			err := rows.Scan(&id, &l.cancelled, &l.timedOut, &l.shortened)
			held[id] = l
			return err
		}, list, now, until)
		if err != nil {
			return e, err
		}
	}
	var missing []dibs.Lease
	shortened := make(map[dibs.Token]bool)
	for _, l := range leases {
		is, ok := held[l.ID]
		if !ok {
			missing = append(missing, l)
		}
		if is.cancelled {
			e.Cancelled = append(e.Cancelled, l.ID)
		}
		if is.timedOut {
			e.TimedOut = append(e.TimedOut, l.ID)
		}
		if is.shortened {
			shortened[l.Token] = true
		}
	}
	busy, err := s.busy(missing)
	if err != nil {
		return e, err
	}
	ended, err := s.endedLeases(missing, busy, now)
	if err != nil {
		return e, err
	}
	for _, l := range missing {
		if busy[l.ID] && !ended[l.ID] {
			e.Finishing = append(e.Finishing, l.ID)
		} else {
			e.Lost = append(e.Lost, l.ID)
		}
	}
	laterRows(s, "check_earlier", slices.SortedFunc(maps.Keys(shortened), func(a, b dibs.Token) int { return bytes.Compare(a[:], b[:]) }), until)
	return e, nil
}

// endedLeases finds those of the leases that have ended: nobody else has locked their jobs, and yet extend.sql has passed
// over them.
func (s *Session) endedLeases(leases []dibs.Lease, busy map[int64]bool, now int64) (map[int64]bool, error) {
	var ids []int64
	for _, l := range leases {
		if busy[l.ID] {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := s.holding(ids)
	ended := make(map[int64]bool, len(jobs))
	for id, j := range jobs {
		ended[id] = j.leaseUntil <= now && !s.ownTokens[j.token]
	}
	return ended, err
}

// extended is what an extension tells about a lease that still holds.
type extended struct{ cancelled, timedOut, shortened bool }
