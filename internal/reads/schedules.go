package reads

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// Schedule reads a row of schedules.sql or schedules_due.sql: the time, a schedule, or nil if the row has only the time,
// and into last the last column.
func Schedule(scan Scan, now *time.Time, last any) (*dibs.Schedule, error) {
	var name *string
	var owner string
	var settings, payload, metadata []byte
	var paused bool
	var since, next, lastTick time.Time
	var lastJob int64
	err := scan(Time(now), &name, Text(&owner), &settings, &payload, &metadata, Bool(&paused), Time(&since), Time(&next), Time(&lastTick), Number(&lastJob), last)
	if err != nil || name == nil {
		return nil, err
	}
	s := ticks.Decode(*name, settings, payload, metadata)
	s.Owner, s.Paused, s.Since, s.Next, s.LastTick, s.LastJob = owner, paused, since, next, lastTick, lastJob
	return &s, nil
}

// Schedules lists all schedules, or those of some names.
func (c Calls) Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error) {
	all, _, err := c.schedules(ctx, "schedules", ticks.Named(names), names)
	return all, err
}

// schedules reads the schedules with these names, or all if names is nil, and the database's time.
func (c Calls) schedules(ctx context.Context, op string, refused error, names []string) (all []dibs.Schedule, now time.Time, err error) {
	if err := c.Ready(ctx, op); err != nil {
		return nil, now, err
	}
	if refused != nil {
		return nil, now, refused
	}
	err = c.Read(ctx, Statement{Name: "schedules", Args: []any{names, names}, Begin: func() { all = []dibs.Schedule{} }, Row: func(scan Scan) error {
		one, err := Schedule(scan, &now, new(int64))
		if one != nil {
			all = append(all, *one)
		}
		return err
	}})
	if err != nil {
		return nil, now, c.Failed(op, err)
	}
	return all, now, nil
}

// NextTicks lists the next ticks of a schedule.
func (c Calls) NextTicks(ctx context.Context, of dibs.Schedule, n int) ([]time.Time, error) {
	_, now, err := c.schedules(ctx, "next ticks", nil, []string{})
	if err != nil {
		return nil, err
	}
	return ticks.NextTicks(&of, n, now)
}
