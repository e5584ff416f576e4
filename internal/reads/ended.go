package reads

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Failures lists how dead jobs have ended, last died first.
func (c Calls) Failures(ctx context.Context, f admin.FailureFilter) ([]admin.Failure, error) {
	before, id, err := checks.Failures(&f)
	all, err := list(ctx, c, "failures", err, failure, "failures", f.Queues, f.Limit, before, id)
	checks.LastDiedFirst(all)
	return all, err
}

func failure(f *admin.Failure) []any {
	return []any{&f.ID, &f.Queue, &f.Kind, Time(&f.At), &f.Attempt, &f.Error}
}

// Times computes how long the last completed jobs of a queue waited and ran.
func (c Calls) Times(ctx context.Context, queue string) (admin.Times, error) {
	type took struct {
		at        time.Time
		wait, run int64
	}
	columns := func(t *took) []any { return []any{Time(&t.at), &t.wait, &t.run} }
	all, err := list(ctx, c, "times", checks.Name("queue", queue), columns, "times", queue, admin.TimesOf)
	if err != nil || len(all) == 0 {
		return admin.Times{}, err
	}
	var waits, runs []int64
	for _, t := range all {
		waits, runs = append(waits, t.wait), append(runs, t.run)
	}
	return checks.Times(all[len(all)-1].at, waits, runs), nil
}

// History counts what happened in each of the last minutes.
func (c Calls) History(ctx context.Context, queues []string, since time.Duration) ([]admin.Minute, error) {
	if err := c.Ready(ctx, "history"); err != nil {
		return nil, err
	}
	all, err := checks.NewMinutes(since, queues)
	if err != nil {
		return nil, err
	}
	once := slices.Compact(slices.Sorted(slices.Values(all.Queues))) // each queue once, as it may be asked for several times
	var m admin.Minute
	var last time.Time
	var queue *string
	var wait, run int64
	columns := []any{&queue, Time(&m.At), &m.Enqueued, &m.Claimed, &m.Succeeded, &m.Failed, &m.Died, &wait, &run}
	err = c.Read(ctx, Statement{Name: "history", Args: []any{once, all.Before}, Begin: all.Begin, Row: func(scan Scan) error {
		if err := scan(columns...); err != nil || queue == nil {
			last = m.At
			return err
		}
		m.Queue = *queue
		all.Add(m, wait, run)
		return nil
	}})
	if err != nil {
		return nil, c.Failed("history", err)
	}
	return all.List(last), nil
}

// Changes lists what somebody has changed, newest first.
func (c Calls) Changes(ctx context.Context, n int) ([]admin.Change, error) {
	return list(ctx, c, "changes", checks.Changes(n), change, "audit", n)
}

func change(c *admin.Change) []any { return []any{Time(&c.At), &c.Who, &c.Did, &c.What, &c.N} }
