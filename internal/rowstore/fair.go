package rowstore

import (
	"database/sql"
	"slices"

	"github.com/dibs-queue/dibs"
)

// round is an admission of groups in a fair queue: the queue's turn, and the number of the admission. Both are read
// when the first group needs them.
type round struct{ turn, admission int64 }

// admitFirst gives places of a group to its first n blocked jobs, and returns how many there were. In a fair queue,
// where r is not nil, these jobs get turns: first those of the jobs that have just lost their places, so that a better job does not wait
// for a turn of its own; then turns after all others of the group, and not before the queue's turn.
func (s *Session) admitFirst(g group, n int, r *round, turns [][2]int64) (int64, error) {
	if r == nil {
		return s.exec("admit", g.queue, g.key, n)
	}
	if r.admission == 0 {
		if _, err := s.one("reached", []any{g.queue}, &r.turn, &r.admission); err != nil {
			return 0, err
		}
	}
	var last int64
	if _, err := s.one("last_turn", []any{g.queue, g.key}, &last); err != nil {
		return 0, err
	}
	slices.SortFunc(turns, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	if len(turns) > 0 {
		last = max(last, turns[len(turns)-1][0])
	} else {
		turns = [][2]int64{} // null is no list
	}
	return s.exec("admit_fair", g.queue, g.key, n, jsonText(turns), max(r.turn, last+1), r.admission)
}

// claimFair takes up to n jobs with turns, in the order of these.
func (s *Session) claimFair(c *pendingClaim, kinds any, n int) error {
	statement := "fair"
	if c.queue.groupRates {
		statement = "fair_rated"
	}
	var ids []int64
	var reached int64
	err := s.each(statement, func(rows *sql.Rows) error {
		var id, turn int64
		err := rows.Scan(&id, &turn)
		ids, reached = append(ids, id), max(reached, turn)
		return err
	}, c.queue.Name, n, c.now, kinds)
	if err != nil || len(ids) == 0 {
		return err
	}
	if err := s.each("claim_fair", c.add, jsonIDs(ids), c.now, c.token[:], c.until, c.worker); err != nil {
		return err
	}
	place := make(map[int64]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(c.jobs, func(a, b *dibs.RawJob) int { return place[a.ID] - place[b.ID] })
	s.later("reach", c.queue.Name, reached)
	return nil
}
