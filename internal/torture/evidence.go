package torture

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
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
	e = history.Evidence{
		Queues: r.startQueues, Groups: map[string]map[string]int{grouped: r.startGroups},
		Effects: map[int64]int{}, Slack: slack,
	}
	if !r.onSQLite() {
		e.OrderSlack = orderSlack
	}
	if e.Calls, err = history.Read(r.Dir); err != nil {
		return e, err
	}
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		if e.Final, err = r.list(ctx, state, e.Final); err != nil {
			return e, fmt.Errorf("read the jobs: %w", err)
		}
	}
	if err := r.effects(ctx, e.Effects); err != nil {
		return e, fmt.Errorf("read the effects: %w", err)
	}
	e.Check, err = r.DB.Check(ctx)
	return e, err
}

// list adds all jobs of a state.
func (r *run) list(ctx context.Context, state dibs.State, jobs []*dibs.RawJob) ([]*dibs.RawJob, error) {
	f := dibs.Filter{State: state, Limit: 1000}
	for {
		page, err := r.DB.List(ctx, f)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" {
			return jobs, nil
		}
		f.After = page.Next
	}
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
