package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// scheduleRow is a schedule as it was read; version changes with each change of the schedule.
type scheduleRow struct {
	dibs.Schedule
	version int64
}

// readSchedules reads schedules, and the database's time, by schedules.sql or schedules_due.sql.
func (s *Store) readSchedules(ctx context.Context, c conn, statement string, args ...any) (list []scheduleRow, now time.Time, err error) {
	read := s.step(statement, args...)
	read.begin = func() { list = nil }
	read.row = func(scan reads.Scan) error {
		var version int64
		one, err := reads.Schedule(scan, &now, &version)
		if one != nil {
			list = append(list, scheduleRow{*one, version})
		}
		return err
	}
	err = c.run(ctx, read)
	return list, now, err
}

// orNull is a time, or null for zero.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// schedule reads one schedule, and the time; without such a schedule the version is 0.
func (s *Store) schedule(ctx context.Context, name string) (r scheduleRow, now time.Time, err error) {
	list, now, err := s.readSchedules(ctx, s.upkeep, "schedules", []string{name}, []string{name})
	if len(list) > 0 {
		r = list[0]
	}
	return r, now, err
}

// scheduleOf reads the schedule with a name, if it belongs to one of the queues. If queues is nil, any queue will do.
func (s *Store) scheduleOf(ctx context.Context, name string, queues []string) (scheduleRow, error) {
	r, _, err := s.schedule(ctx, name)
	if err == nil && (r.version == 0 || !ticks.Of(&r.Schedule, queues)) {
		err = ticks.Unknown(name)
	}
	return r, err
}

// changeSchedule calls f with the schedule, or with nil if there is none, and stores what f returns. An error of f is
// returned as it is.
func (s *Store) changeSchedule(ctx context.Context, op, name string, arguments error, f func(old *dibs.Schedule) (dibs.Schedule, error)) (next dibs.Schedule, err error) {
	if err := s.ready(ctx, op, arguments); err != nil {
		return dibs.Schedule{}, err
	}
	err = settings.Repeat(op+" "+name, "it", func() error {
		row, now, err := s.schedule(ctx, name)
		if err != nil {
			return wrap(op, err)
		}
		var old *dibs.Schedule
		if row.version > 0 {
			old = &row.Schedule
		}
		if next, err = f(old); err != nil {
			return err
		}
		next, err = ticks.Replace(next, old, now, func() ([]dibs.Schedule, error) { return s.Schedules(ctx) }, s.payloadLimit(ctx))
		if err != nil {
			return wrap(op, err)
		}
		return wrap(op, settings.OrStale(s.putSchedule(ctx, s.upkeep, &next, row.version)))
	})
	if err != nil {
		return dibs.Schedule{}, err
	}
	s.lookForTicks(ctx)
	return next, nil
}

// putSchedule stores a schedule in place of the version old; done is false if the database
// has another version by now.
func (s *Store) putSchedule(ctx context.Context, c conn, next *dibs.Schedule, old int64) (done bool, err error) {
	text, payload, metadata := ticks.Encode(next)
	var ids []int64
	set := s.step("set_schedule", next.Name, old, next.Owner, text, payload, metadata, next.Paused, next.Since, orNull(next.Next))
	err = c.run(ctx, waitBriefly, column(set, &ids))
	return len(ids) > 0, scheduleHeld(next.Name, err)
}

// scheduleHeld adds to the error of a change that another transaction holds the schedule's row, if that was the cause.
func scheduleHeld(name string, err error) error {
	if isLocked(err) {
		return fmt.Errorf("another transaction holds the row of the schedule %s ('dibs doctor' says which once a tick is late): %w", name, err)
	}
	return err
}

// payloadLimit returns a function that reads the payload limit of a queue.
func (s *Store) payloadLimit(ctx context.Context) func(string) (int, error) {
	return func(name string) (int, error) {
		q, ok, err := s.queue(ctx, name)
		if err != nil || !ok {
			return dibs.MaxPayload, err
		}
		return q.PayloadLimit, nil
	}
}

// SetSchedule implements dibs.Schedules.
func (s *Store) SetSchedule(ctx context.Context, next dibs.Schedule, queues ...string) (dibs.Schedule, error) {
	return s.changeSchedule(ctx, "set schedule", next.Name, checks.Name("schedule.name", next.Name), func(old *dibs.Schedule) (dibs.Schedule, error) {
		return next, wrap("set schedule", ticks.Replaceable(old, queues))
	})
}

// ChangeSchedule implements dibs.Schedules.
func (s *Store) ChangeSchedule(ctx context.Context, name string, f func(*dibs.Schedule) error) (dibs.Schedule, error) {
	return s.changeSchedule(ctx, "change schedule", name, ticks.Editable(name, f), func(old *dibs.Schedule) (dibs.Schedule, error) {
		if old == nil {
			return dibs.Schedule{}, wrap("change schedule", ticks.Unknown(name))
		}
		next := *old
		err := f(&next)
		next.Name = name
		return next, err
	})
}

// SetSchedules implements dibs.Schedules.
func (s *Store) SetSchedules(ctx context.Context, owner string, list []dibs.Schedule) error {
	if err := s.ready(ctx, "set schedules", ticks.Owner(owner)); err != nil {
		return err
	}
	err := settings.Repeat("set schedules", "they", func() error { return wrap("set schedules", s.agree(ctx, owner, list)) })
	if err == nil {
		s.lookForTicks(ctx)
	}
	return err
}

// agree makes the schedules of an owner those of the list, in one transaction.
func (s *Store) agree(ctx context.Context, owner string, list []dibs.Schedule) error {
	old, now, err := s.readSchedules(ctx, s.upkeep, "schedules", nil, ticks.Names(list))
	if err != nil {
		return err
	}
	all, versions := make([]dibs.Schedule, len(old)), map[string]int64{}
	for i := range old {
		all[i], versions[old[i].Name] = old[i].Schedule, old[i].version
	}
	put, gone, err := ticks.Agree(owner, list, all, now, s.payloadLimit(ctx))
	if err != nil {
		return err
	}
	slices.SortFunc(put, func(a, b dibs.Schedule) int { return cmp.Compare(a.Name, b.Name) }) // all transactions lock schedules in the same order
	return s.transact(ctx, "set schedules", func(c conn) error {
		for i := range put {
			if err := settings.OrStale(s.putSchedule(ctx, c, &put[i], versions[put[i].Name])); err != nil {
				return err
			}
		}
		return c.run(ctx, s.step("delete_schedules", gone, owner, nil))
	})
}

// DeleteSchedule implements dibs.Schedules.
func (s *Store) DeleteSchedule(ctx context.Context, name string, queues ...string) error {
	if err := s.ready(ctx, "delete schedule", checks.Name("name", name)); err != nil {
		return err
	}
	return settings.Repeat("delete schedule "+name, "it", func() error {
		r, err := s.scheduleOf(ctx, name, queues)
		if err != nil {
			return wrap("delete schedule", err)
		}
		var gone []string
		err = s.upkeep.run(ctx, waitBriefly, column(s.step("delete_schedules", []string{name}, nil, r.version), &gone))
		return wrap("delete schedule", settings.OrStale(len(gone) > 0, scheduleHeld(name, err)))
	})
}

// RunSchedule implements dibs.Schedules.
func (s *Store) RunSchedule(ctx context.Context, name string, queues ...string) (dibs.Enqueued, error) {
	if err := s.ready(ctx, "run schedule", checks.Name("name", name)); err != nil {
		return dibs.Enqueued{}, err
	}
	r, err := s.scheduleOf(ctx, name, queues) // another process may change the schedule after this: then its change counts as later than the run
	if err != nil {
		return dibs.Enqueued{}, wrap("run schedule", err)
	}
	out, _, err := s.enqueueRows(ctx, []checks.Row{ticks.Job(&r.Schedule, time.Time{})}, nil, false)
	if err != nil {
		return dibs.Enqueued{}, wrap("run schedule", err)
	}
	return out[0], nil // enqueueRows has woken the workers
}
