package adopt

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// With row locks, several claims of a table with groups run at the same time. Each group has a
// turn: an advisory lock that no claim waits for, and that lasts as long as the transaction.
// Only a transaction with the turn claims rows of the group. It counts the group's running rows
// after it has taken the turn, so the count cannot change until it commits. It skips the groups
// whose turn another transaction has. Rows without a group need no turn, only their row locks.

// maxTurns is from how many groups one claim takes rows. The server keeps these locks in
// memory of a fixed size.
const maxTurns = 500

// scanChosen reads a chosen row. A row without a key means that turn.sql has skipped rows that other transactions have locked.
var scanChosen = scanner(func(r *row) []any { return []any{(*nullText)(&r.key), &r.group} })

// claimInTurn claims rows of a table with groups, in a transaction. After each look it records the
// rows it has found: a row without a group that it locks must be claimed, because other claims
// have skipped it and would take it out of order later.
func (s *Store) claimInTurn(ctx context.Context, q adopted.Querier, t *claimCall, n int) (rows []*row, err error) {
	turns, skipped := maxTurns, false
	missed := []string(nil) // keys that claim.sql did not claim: the row was locked, or its group full
	for _, look := range lookSizes(n) {
		t.values["n"], t.values["look"] = n-len(rows), look
		t.values["missed"], t.values["turns"] = jsonArray(missed), turns
		found, err := run(ctx, q, s.do.Turn, t.values, scanChosen)
		if err != nil {
			return nil, err
		}
		if last := len(found) - 1; last >= 0 && found[last].key == "" {
			skipped, found = true, found[:last]
		}
		if len(found) == 0 {
			continue
		}
		groups := groupsOf(found)
		turns -= len(groups)
		t.values["batch"], t.values["held"] = batch(keysOf(found)), jsonArray(groups)
		more, err := run(ctx, q, s.do.Claim, t.values, scanRow)
		missed = append(missed, keysWithout(found, more)...)
		if err == nil {
			err = s.record(ctx, q, t, &more)
		}
		if rows = append(rows, more...); err != nil || len(rows) >= n {
			return rows, err
		}
	}
	if skipped {
		s.wakers.later(s.turnWait(len(rows) > 0))
	}
	return rows, nil
}

// keysWithout lists the keys of chosen rows that were not claimed.
func keysWithout(chosen, claimed []*row) (keys []string) {
	isClaimed := make(map[string]bool, len(claimed))
	for _, r := range claimed {
		isClaimed[r.key] = true
	}
	for _, c := range chosen {
		if !isClaimed[c.key] {
			keys = append(keys, c.key)
		}
	}
	return keys
}

// groupsOf lists the groups of rows, each once.
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

const minTurnWait, maxTurnWait = 5 * time.Millisecond, time.Second

// turnWait is how long after a claim that skipped locked rows the next is made. It doubles each
// time that a claim takes no row.
func (s *Store) turnWait(claimedAny bool) time.Duration {
	d := min(max(2*time.Duration(s.lastTurnWait.Load()), minTurnWait), maxTurnWait)
	if claimedAny {
		d = minTurnWait
	}
	s.lastTurnWait.Store(int64(d))
	return d
}
