package torture

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// slack is how much later than promised claims may be. The machine runs far more processes
// than it has cores, and on SQLite a process that is stopped in its write transaction makes
// all others wait.
const slack = 3 * time.Second

// orderSlack is how long claims on a server may pass over a job while they are slow: a
// second, and the time until the next claim begins. On SQLite the order is exact.
const orderSlack = 1200 * time.Millisecond

// evidence collects the records and the database's contents after the run.
func (r *run) evidence(ctx context.Context) (e history.Evidence, err error) {
	if e, err = history.Collect(ctx, r.DB, r.Dir); err != nil {
		return e, err
	}
	e.Queues, e.Groups, e.Slack = r.startQueues, r.startGroups, slack
	if r.onServer() {
		e.OrderSlack, e.ClaimsAtOnce = orderSlack, true
	}
	if r.Effects == "" {
		return e, nil
	}
	e.Effects = map[int64]int{}
	if err := r.effects(ctx, e.Effects); err != nil {
		return e, fmt.Errorf("read the effects: %w", err)
	}
	return e, nil
}

// keepEvidence collects the evidence, and writes to a file what is not in the records.
func (r *run) keepEvidence(ctx context.Context) (history.Evidence, error) {
	e, err := r.evidence(ctx)
	if err == nil {
		err = writeEvidence(r.Dir, r.About, &e)
	}
	return e, err
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
