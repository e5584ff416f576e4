package torture

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs/internal/history"
)

// slack is for a machine that is busy with far more processes than it has cores, of
// which some are stopped: on SQLite one may have been stopped in the middle of its
// turn to write, which then lasts as long.
const slack = 3 * time.Second

// orderSlack is what PostgreSQL is granted for the order while claims are slow: a
// second, and what it takes until the next claim begins. On SQLite order is exact.
const orderSlack = 1200 * time.Millisecond

// evidence reads what the run has left.
func (r *run) evidence(ctx context.Context) (e history.Evidence, err error) {
	if e, err = history.Collect(ctx, r.DB, r.Dir); err != nil {
		return e, err
	}
	e.Queues, e.Groups = r.startQueues, map[string]map[string]int{grouped: r.startGroups}
	e.Effects, e.Slack = map[int64]int{}, slack
	if !r.onSQLite() {
		e.OrderSlack = orderSlack
	}
	if err := r.effects(ctx, e.Effects); err != nil {
		return e, fmt.Errorf("read the effects: %w", err)
	}
	return e, nil
}

func (r *run) effects(ctx context.Context, counts map[int64]int) error {
	return r.withSQL(func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "select job from "+r.Effects)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var job int64
			if err := rows.Scan(&job); err != nil {
				return err
			}
			counts[job]++
		}
		return rows.Err()
	})
}
