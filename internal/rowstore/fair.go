package rowstore

import (
	"database/sql"
	"slices"

	"github.com/dibs-queue/dibs"
)

// admitFirst gives the free places of groups to their first blocked jobs. In a fair queue
// these jobs get turns: first those of the jobs that have just lost their places, so that a better job does not wait
// for a turn of its own; then turns after all others of the group, and not before the queue's turn.
func (s *Session) admitFirst(q *queue, groups []*places) error {
	wanting := make(map[string]*places)
	for _, g := range groups {
		if g.free > 0 && g.blocked {
			wanting[g.key] = g
		}
	}
	if len(wanting) == 0 {
		return nil
	}
	var turn, admission int64
	if q.Order == dibs.Fair {
		if _, err := s.one("reached", []any{q.Name}, &turn, &admission); err != nil {
			return err
		}
	}
	list := make([][]any, 0, len(wanting))
	for _, g := range groups {
		switch {
		case wanting[g.key] == nil:
		case q.Order == dibs.Fair:
			turns, next := g.turns(turn)
			list = append(list, []any{g.key, g.free, turns, next, admission})
		default:
			list = append(list, []any{g.key, g.free, nil})
		}
	}
	for rows := range lists(list) {
		admitted, err := s.names("admit", q.Name, rows)
		if err != nil {
			return err
		}
		for _, key := range admitted {
			wanting[key].admitted++
			s.woken[q.Name] = true
		}
	}
	return nil
}

// turns are those that a group's jobs take over from others, and the first turn after these.
func (g *places) turns(reached int64) (turns [][2]int64, next int64) {
	turns = slices.Clone(g.out.turns)
	slices.SortFunc(turns, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	if turns == nil {
		turns = [][2]int64{} // null is no list
	}
	return turns, max(reached, g.lastTurn+1)
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
