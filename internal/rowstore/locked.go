package rowstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/reads"
)

// busy returns those of the missing leases whose jobs have the token still: they were not found only because other
// transactions have locked the rows. Such a transaction may be an extension, so a lease that seems to have ended may hold.
func (s *Session) busy(missing []dibs.Lease) (map[int64]bool, error) {
	if !s.concurrent() || len(missing) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(missing))
	for i, l := range missing {
		ids[i] = l.ID
	}
	held, all := map[int64]bool{}, map[int64]lastLease{}
	err := s.lastLeases(ids, all)
	for _, l := range missing {
		is, ok := all[l.ID]
		held[l.ID] = ok && is.token == l.Token
	}
	return held, err
}

// lastLease is the lease of a running job as last committed; another transaction may have locked the job's row.
type lastLease struct {
	token dibs.Token
	until int64
}

func (s *Session) lastLeases(ids []int64, all map[int64]lastLease) error {
	return s.each("tokens", func(rows *sql.Rows) error { return scanLease(rows, all) }, jsonIDs(ids))
}

func scanLease(rows *sql.Rows, all map[int64]lastLease) error {
	var id int64
	var l lastLease
	err := rows.Scan(&id, reads.Token(&l.token), &l.until)
	all[id] = l
	return err
}

// passedOver returns the claims some of whose jobs were not found only because other transactions have locked
// the rows. If such a transaction is rolled back, the job goes on running.
func (s *Session) passedOver(claims []claimRow, found map[int64]*heldJob) (map[dibs.Token]bool, error) {
	if !s.concurrent() {
		return nil, nil
	}
	var missing []int64
	for _, c := range claims {
		for _, id := range c.ids {
			if found[id] == nil {
				missing = append(missing, id)
			}
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	all, tokens := map[int64]lastLease{}, map[dibs.Token]bool{}
	err := s.lastLeases(missing, all)
	for _, l := range all {
		tokens[l.token] = true
	}
	return tokens, err
}

// noneHeld fails if some of the jobs were not found only because other transactions have locked their rows. If ended is
// true, it looks among the finished jobs, otherwise among the live ones.
func (s *Session) noneHeld(ids []int64, found int, ended bool) error {
	if !s.concurrent() || found == len(ids) {
		return nil
	}
	var present int
	_, err := s.one("present", []any{jsonIDs(ids), ended}, &present)
	if err == nil && present > found {
		err = errAgain
	}
	return err
}

// keysLocked fails if one of the jobs may hold its unique key again and the key is not among the locked ones, since the
// job ended after the keys were locked.
func (s *Session) keysLocked(jobs []*endedJob, keys []UniqueKey) error {
	if !s.concurrent() {
		return nil
	}
	for _, j := range jobs {
		if j.uniqueKey != "" && !slices.Contains(keys, UniqueKey{j.queue, j.uniqueKey}) {
			return errAgain
		}
	}
	return nil
}

// On a cluster a caller's transaction that began before a lease was given or extended on another node may not know that yet. A read of
// its own knows all that was committed anywhere.

// holds finds those of the leases that hold, whatever a transaction knows.
func (s *Store) holds(ctx context.Context, leases []dibs.Lease) (map[int64]bool, error) {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	all := map[int64]lastLease{}
	err := s.read(ctx, "tokens", func(rows *sql.Rows) error { return scanLease(rows, all) }, jsonIDs(ids))
	held, now := map[int64]bool{}, s.now()
	for _, l := range leases {
		is := all[l.ID] // until is 0 if the job does not run
		held[l.ID] = is.token == l.Token && is.until > now
	}
	return held, err
}

// notLost has those of the lost outcomes tried again whose leases hold, as far as can be known.
func (s *Store) notLost(ctx context.Context, outcomes []dibs.Outcome, r *refused) {
	if c := s.concurrent(); c == nil || !c.Certified || len(r.lost) == 0 {
		return
	}
	var leases []dibs.Lease
	for i := range outcomes {
		if o := &outcomes[i]; slices.Contains(r.lost, o.ID) {
			leases = append(leases, dibs.Lease{ID: o.ID, Token: o.Token})
		}
	}
	held, err := s.holds(ctx, leases)
	r.lost = slices.DeleteFunc(r.lost, func(id int64) bool {
		again := held[id] || err != nil
		if again {
			r.busy = append(r.busy, id)
		}
		return again
	})
}

// holdsElsewhere has a call made again that takes a lease for lost which holds.
func (s *Store) holdsElsewhere(ctx context.Context, l dibs.Lease, err error) error {
	if c := s.concurrent(); c == nil || !c.Certified || !errors.Is(err, dibs.ErrLeaseLost) {
		return err
	}
	if held, unread := s.holds(ctx, []dibs.Lease{l}); unread != nil || held[l.ID] {
		return errAgain
	}
	return err
}
