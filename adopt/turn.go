package adopt

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// Where rows are locked one by one, claims of a table with groups run side by side. Each
// group has a turn, a lock that nobody waits for: only a transaction that has the turn
// until its end makes rows of the group run. So what it counts, by a statement that
// begins once it has the turn, is all that runs of the group, whoever commits meanwhile.
// Rows of groups whose turn another has are passed over. Rows without a group need no
// turn: their own locks are enough. A crash or a rollback ends the turn with the claim.

// mostTurns is how many groups one claim takes rows of. The server keeps turns in
// memory of a fixed size.
const mostTurns = 500

// scanChosen reads a row that was chosen. One without a key says that others are at rows that would have been chosen, or have their turns.
var scanChosen = scanner(func(r *row) []any { return []any{(*nullText)(&r.key), &r.group} })

// claimInTurn claims in a transaction, of a table with groups. What one look has found
// is kept before the next, so that each row without a group that is locked is claimed:
// others that passed over it would else come to it out of order.
func (s *Store) claimInTurn(ctx context.Context, q adopted.Querier, t *taking, n int) (rows []*row, err error) {
	turns, passed := mostTurns, false
	missed := []string(nil) // other programs have locked them, or their group is full
	for _, look := range looks(n) {
		t.values["n"], t.values["look"] = n-len(rows), look
		t.values["missed"], t.values["turns"] = texts(missed), turns
		found, err := run(ctx, q, s.do.Turn, t.values, scanChosen)
		if err != nil {
			return nil, err
		}
		if last := len(found) - 1; last >= 0 && found[last].key == "" {
			passed, found = true, found[:last]
		}
		if len(found) == 0 {
			continue
		}
		groups := groupsOf(found)
		turns -= len(groups)
		t.values["batch"], t.values["held"] = batch(keysOf(found)), texts(groups)
		more, err := run(ctx, q, s.do.Claim, t.values, scanRow)
		missed = append(missed, keysWithout(found, more)...)
		if err == nil {
			err = s.keep(ctx, q, t, &more)
		}
		if rows = append(rows, more...); err != nil || len(rows) >= n {
			return rows, err
		}
	}
	if passed {
		s.wakers.later(s.turnWait(len(rows) > 0))
	}
	return rows, nil
}

// keysWithout are the keys of chosen rows that were not claimed.
func keysWithout(all, claimed []*row) (keys []string) {
	has := make(map[string]bool, len(claimed))
	for _, r := range claimed {
		has[r.key] = true
	}
	for _, c := range all {
		if !has[c.key] {
			keys = append(keys, c.key)
		}
	}
	return keys
}

// groupsOf are the groups of rows, each once.
func groupsOf(all []*row) []string {
	groups := []string{}
	for _, c := range all {
		if c.group.Valid {
			groups = append(groups, c.group.String)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

const turnLeast, turnMost = 5 * time.Millisecond, time.Second

// turnWait is when a claim that others were before is to be made again: soon, and
// after twice as long each time that it got nothing.
func (s *Store) turnWait(got bool) time.Duration {
	d := min(max(2*time.Duration(s.turns.Load()), turnLeast), turnMost)
	if got {
		d = turnLeast
	}
	s.turns.Store(int64(d))
	return d
}
