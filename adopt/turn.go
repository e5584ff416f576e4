package adopt

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
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

// turn is a row that was chosen.
type turn struct {
	key   string // empty: others are at rows that would have been chosen
	group sql.NullString
}

func scanTurn(rows *sql.Rows) (*turn, error) {
	t := &turn{}
	return t, rows.Scan((*nullText)(&t.key), &t.group)
}

// chooseInTurn is choose for a table with groups.
func (s *Store) chooseInTurn(ctx context.Context, q querier, t *taking, n int) ([]*row, error) {
	n = min(n, mostTurns)
	var chosen []*turn
	passed := false
	for _, look := range looks(n) {
		t.values["n"], t.values["look"] = n, look
		found, err := run(ctx, q, s.do.turn, t.values, scanTurn)
		if err != nil {
			return nil, err
		}
		all := len(found)
		chosen = slices.DeleteFunc(found, func(c *turn) bool { return c.key == "" })
		if passed = len(chosen) < all; len(chosen) >= n {
			break
		}
	}
	if passed {
		s.wakers.later(s.turnWait(len(chosen) > 0))
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	items, held := make([]item, len(chosen)), []string{}
	for i, c := range chosen {
		items[i] = item{Key: json.RawMessage(c.key)}
		if c.group.Valid {
			held = append(held, c.group.String)
		}
	}
	t.values["batch"] = batch(items)
	raw, _ := json.Marshal(held) // strings
	t.values["held"] = string(raw)
	return run(ctx, q, s.do.claim, t.values, scanRow)
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
