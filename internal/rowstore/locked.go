package rowstore

import (
	"database/sql"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/reads"
)

// busy tells of which leases the jobs were not found only because other transactions hold their rows: the leases last.
func (s *Session) busy(missing []dibs.Lease) (map[int64]bool, error) {
	if !s.concurrent() || len(missing) == 0 {
		return nil, nil
	}
	now := s.now()
	ids := make([]int64, len(missing))
	for i, l := range missing {
		ids[i] = l.ID
	}
	good, all := map[int64]bool{}, map[int64]lastLease{}
	err := s.lastLeases(ids, all)
	for _, l := range missing {
		is, ok := all[l.ID]
		good[l.ID] = ok && is.token == l.Token && (is.until > now || s.ownTokens[l.Token])
	}
	return good, err
}

// lastLease is a lease of a running job as it was last committed, also if another transaction holds the job's row.
type lastLease struct {
	token dibs.Token
	until int64
}

func (s *Session) lastLeases(ids []int64, all map[int64]lastLease) error {
	return s.each("tokens", func(rows *sql.Rows) error {
		var id int64
		var l lastLease
		err := rows.Scan(&id, reads.Token(&l.token), &l.until)
		all[id] = l
		return err
	}, jsonIDs(ids))
}

// passedOver tells which claims have jobs that were not found only because other transactions hold their rows.
// If such a transaction is rolled back, the job goes on running.
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

// noneHeld fails if some of the jobs were not found only because other transactions hold their rows. ended says that they are
// looked for among the finished jobs; else among the live ones.
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

// keysLocked fails if a job that may hold its unique key again has ended since the keys were locked, so that its own was not.
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
