package adopt

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// Where rows are locked one by one, claims of a table with groups run side by side. Each
// group has a turn, a lock that nobody waits for: only a transaction that has the turn
// until its end makes rows of the group run. So what it counts, by a statement that
// begins once it has the turn, is all that runs of the group, whoever commits meanwhile.
// Rows of groups whose turn another has are passed over. A crash or a rollback ends the
// turn with the claim.

// mostTurns is how many rows one claim takes from a table with groups. The server keeps
// turns in memory of a fixed size.
const mostTurns = 500

// chosen is a row that was chosen.
type chosen struct {
	key   string // empty: others have the turns of rows that would have been chosen
	group sql.NullString
}

func scanChosen(rows *sql.Rows) (chosen, error) {
	c := chosen{}
	return c, rows.Scan((*nullText)(&c.key), &c.group)
}

// chooseInTurn is choose for a table with groups.
func (s *Store) chooseInTurn(ctx context.Context, q querier, t *taking, n int) (rows []*row, err error) {
	n = min(n, mostTurns)
	passed, missed := false, 0 // missed: other programs have locked them
	for _, look := range looks(n) {
		if s.do.mark != nil || s.do.lease != nil { // nothing is written yet: choose anew
			rows = nil
		}
		t.values["n"], t.values["look"] = n-len(rows)+missed, look
		found, err := run(ctx, q, s.do.turn, t.values, scanChosen)
		if err != nil {
			return nil, err
		}
		if last := len(found) - 1; last >= 0 && found[last].key == "" {
			passed, found = true, found[:last]
		}
		if len(found) == 0 {
			continue
		}
		t.values["n"], t.values["batch"], t.values["held"] = n-len(rows), keysOfChosen(found), groupsOfChosen(found)
		more, err := run(ctx, q, s.do.claim, t.values, scanRow)
		if rows = append(rows, more...); err != nil || len(rows) >= n {
			return rows, err
		}
		missed = len(found) - len(more)
	}
	if passed {
		s.wakers.later(s.turnWait(len(rows) > 0))
	}
	return rows, nil
}

func keysOfChosen(all []chosen) string {
	items := make([]item, len(all))
	for i, c := range all {
		items[i] = item{Key: json.RawMessage(c.key)}
	}
	return batch(items)
}

func groupsOfChosen(all []chosen) string {
	groups := []string{}
	for _, c := range all {
		if c.group.Valid {
			groups = append(groups, c.group.String)
		}
	}
	raw, _ := json.Marshal(groups) // strings
	return string(raw)
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
