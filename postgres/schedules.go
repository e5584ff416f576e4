package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// scheduleRow is a schedule as it was read; version names that state of it.
type scheduleRow struct {
	dibs.Schedule
	version int64
}

// readSchedules reads the schedules of some names, or all if names is nil, with the payloads of those that are to be
// whole, and the database's time.
func (s *Store) readSchedules(ctx context.Context, c conn, names, whole []string) (list []scheduleRow, now time.Time, err error) {
	err = c.run(ctx, step{sql: s.sql.get("schedules"), args: []any{names, whole}, begin: func() { list = nil }, row: func(scan func(...any) error) error {
		r, ok, err := scanSchedule(scan, &now)
		if ok {
			list = append(list, r)
		}
		return err
	}})
	return list, now, err
}

func scanSchedule(scan func(...any) error, now *time.Time) (r scheduleRow, ok bool, err error) {
	var name, owner pgtype.Text
	var version, lastJob pgtype.Int8
	var settings, payload, metadata []byte
	var paused pgtype.Bool
	var since, next, lastTick pgtype.Timestamptz
	err = scan(now, &name, &owner, &version, &settings, &payload, &metadata, &paused, &since, &next, &lastTick, &lastJob)
	if *now = now.UTC(); err != nil || !name.Valid {
		return r, false, err
	}
	s := ticks.Decode(name.String, settings, payload, metadata)
	s.Owner, s.Paused = owner.String, paused.Bool
	s.Since, s.Next, s.LastTick, s.LastJob = utc(since), utc(next), utc(lastTick), lastJob.Int64
	return scheduleRow{Schedule: s, version: version.Int64}, true, nil
}

// utc is a time, or zero for null and for the infinite ones, which only SQL by hand can leave.
func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return checks.Time(t.Time)
}

// orNull is a time, or null for zero.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Schedules implements dibs.Schedules.
func (s *Store) Schedules(ctx context.Context, names ...string) ([]dibs.Schedule, error) {
	if err := s.check(ctx, "schedules"); err != nil {
		return nil, err
	}
	if err := ticks.Named(names); err != nil {
		return nil, err
	}
	rows, _, err := s.readSchedules(ctx, s.db, names, names)
	list := make([]dibs.Schedule, len(rows))
	for i := range rows {
		list[i] = rows[i].Schedule
	}
	return list, classify("schedules", err)
}

// schedule reads one schedule, and the time; without such a schedule the version is 0.
func (s *Store) schedule(ctx context.Context, name string) (r scheduleRow, now time.Time, err error) {
	list, now, err := s.readSchedules(ctx, s.upkeep, []string{name}, []string{name})
	if len(list) > 0 {
		r = list[0]
	}
	return r, now, err
}

// scheduleOf reads the schedule of a name, if it is of one of the queues; nil: of any.
func (s *Store) scheduleOf(ctx context.Context, name string, queues []string) (scheduleRow, error) {
	r, _, err := s.schedule(ctx, name)
	if err == nil && (r.version == 0 || !ticks.Of(&r.Schedule, queues)) {
		err = ticks.Unknown(name)
	}
	return r, err
}

// scheduleRounds is how often a change is made again because somebody else, or a tick, has
// changed the schedule meanwhile.
const scheduleRounds = 200

// changeSchedule has f make the new schedule out of the old one, which has the version 0 if
// there is none, and stores it. An error of f is returned as it is.
func (s *Store) changeSchedule(ctx context.Context, op, name string, f func(old scheduleRow) (dibs.Schedule, error)) (dibs.Schedule, error) {
	if err := s.check(ctx, op); err != nil {
		return dibs.Schedule{}, err
	}
	for range scheduleRounds {
		old, now, err := s.schedule(ctx, name)
		if err != nil {
			return dibs.Schedule{}, classify(op, err)
		}
		next, err := f(old)
		if err == nil && old.version == 0 {
			err = s.roomForSchedule(ctx)
		}
		if err != nil {
			return dibs.Schedule{}, err
		}
		var replaced *dibs.Schedule
		if next.Owner = ""; old.version > 0 {
			replaced, next.Owner = &old.Schedule, old.Owner
		}
		if next, err = ticks.Check(next, replaced, s.payloadLimit(ctx)); err != nil {
			return dibs.Schedule{}, classifyInput(op, err)
		}
		if err := ticks.Place(&next, replaced, now); err != nil {
			return dibs.Schedule{}, err
		}
		done, err := s.putSchedule(ctx, s.upkeep, &next, old.version)
		if err != nil {
			return dibs.Schedule{}, classify(op, err)
		}
		if done {
			s.lookForTicks(ctx)
			return next, nil
		}
	}
	return dibs.Schedule{}, checks.Failed(op+" "+name, fmt.Errorf("it changed %d times meanwhile: %w", scheduleRounds, dibs.ErrUnavailable))
}

// roomForSchedule refuses one schedule too many.
func (s *Store) roomForSchedule(ctx context.Context) error {
	all, err := s.Schedules(ctx)
	if err != nil {
		return err
	}
	return ticks.Room(all)
}

// putSchedule stores a schedule in place of the version old; done is false if there is
// another one by now.
func (s *Store) putSchedule(ctx context.Context, c conn, next *dibs.Schedule, old int64) (done bool, err error) {
	settings, payload, metadata := ticks.Encode(next)
	err = c.run(ctx, waitBriefly, step{
		sql:  s.sql.get("set_schedule"),
		args: []any{next.Name, old, next.Owner, settings, payload, metadata, next.Paused, next.Since, orNull(next.Next)},
		row: func(scan func(...any) error) error {
			done = true
			return scan(new(int64))
		},
	})
	return done, scheduleHeld(next.Name, err)
}

// scheduleHeld says why a change of a schedule waited in vain.
func scheduleHeld(name string, err error) error {
	if isLocked(err) {
		return fmt.Errorf("another transaction holds the row of the schedule %s ('dibs doctor' says which once a tick is late): %w", name, err)
	}
	return err
}

// payloadLimit returns a function for the limits of queues as they are now.
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
	if err := checks.Name("schedule.name", next.Name); err != nil {
		return dibs.Schedule{}, err
	}
	return s.changeSchedule(ctx, "set schedule", next.Name, func(old scheduleRow) (dibs.Schedule, error) {
		if old.version == 0 {
			return next, nil
		}
		return next, classify("set schedule", ticks.Replaceable(&old.Schedule, queues))
	})
}

// ChangeSchedule implements dibs.Schedules.
func (s *Store) ChangeSchedule(ctx context.Context, name string, f func(*dibs.Schedule) error) (dibs.Schedule, error) {
	if err := checks.Name("name", name); err != nil {
		return dibs.Schedule{}, err
	}
	if f == nil {
		return dibs.Schedule{}, &dibs.InvalidError{Field: "f", Reason: "is nil; give the function that changes the schedule"}
	}
	return s.changeSchedule(ctx, "change schedule", name, func(old scheduleRow) (dibs.Schedule, error) {
		if old.version == 0 {
			return old.Schedule, classify("change schedule", ticks.Unknown(name))
		}
		next := old.Schedule
		err := f(&next)
		next.Name = name
		return next, err
	})
}

// SetSchedules implements dibs.Schedules.
func (s *Store) SetSchedules(ctx context.Context, owner string, list []dibs.Schedule) error {
	if err := s.check(ctx, "set schedules"); err != nil {
		return err
	}
	if err := ticks.Owner(owner); err != nil {
		return err
	}
	for range scheduleRounds {
		done, err := s.agree(ctx, owner, list)
		if err != nil {
			return classifyInput("set schedules", err)
		}
		if done {
			s.lookForTicks(ctx)
			return nil
		}
	}
	return checks.Failed("set schedules", fmt.Errorf("they changed %d times meanwhile: %w", scheduleRounds, dibs.ErrUnavailable))
}

// agree makes an owner's schedules those of the list, in one transaction; done is false, and
// nothing has changed, if somebody else has changed one meanwhile.
func (s *Store) agree(ctx context.Context, owner string, list []dibs.Schedule) (done bool, err error) {
	old, now, err := s.readSchedules(ctx, s.upkeep, nil, ticks.Names(list))
	if err != nil {
		return false, err
	}
	all, versions := make([]dibs.Schedule, len(old)), map[string]int64{}
	for i := range old {
		all[i], versions[old[i].Name] = old[i].Schedule, old[i].version
	}
	put, gone, err := ticks.Agree(owner, list, all, now, s.payloadLimit(ctx))
	if err != nil {
		return false, err
	}
	slices.SortFunc(put, func(a, b dibs.Schedule) int { return cmp.Compare(a.Name, b.Name) }) // all lock in the same order
	err = s.transact(ctx, "set schedules", func(t pgx.Tx) error {
		c := onPgx(t, t.Conn().Config())
		for i := range put {
			if done, err := s.putSchedule(ctx, c, &put[i], versions[put[i].Name]); err != nil || !done {
				return orStale(err)
			}
		}
		return c.run(ctx, step{sql: s.sql.get("delete_schedules"), args: []any{gone, owner, nil}})
	})
	if errors.Is(err, errStale) {
		return false, nil
	}
	return err == nil, err
}

// orStale is err, or errStale if there is none.
func orStale(err error) error {
	if err != nil {
		return err
	}
	return errStale
}

// DeleteSchedule implements dibs.Schedules.
func (s *Store) DeleteSchedule(ctx context.Context, name string, queues ...string) error {
	if err := checks.Name("name", name); err != nil {
		return err
	}
	if err := s.check(ctx, "delete schedule"); err != nil {
		return err
	}
	for range scheduleRounds {
		r, err := s.scheduleOf(ctx, name, queues)
		if err != nil {
			return classify("delete schedule", err)
		}
		gone := false
		err = s.upkeep.run(ctx, waitBriefly, step{
			sql: s.sql.get("delete_schedules"), args: []any{[]string{name}, nil, r.version},
			row: func(scan func(...any) error) error {
				gone = true
				return scan(new(string))
			},
		})
		if err != nil || gone {
			return classify("delete schedule", scheduleHeld(name, err))
		}
	}
	return checks.Failed("delete schedule "+name, fmt.Errorf("it changed %d times meanwhile: %w", scheduleRounds, dibs.ErrUnavailable))
}

// RunSchedule implements dibs.Schedules.
func (s *Store) RunSchedule(ctx context.Context, name string, queues ...string) (dibs.Enqueued, error) {
	if err := checks.Name("name", name); err != nil {
		return dibs.Enqueued{}, err
	}
	if err := s.check(ctx, "run schedule"); err != nil {
		return dibs.Enqueued{}, err
	}
	r, err := s.scheduleOf(ctx, name, queues) // a change after this comes after the run
	if err != nil {
		return dibs.Enqueued{}, classify("run schedule", err)
	}
	out, _, err := s.enqueueRows(ctx, []checks.Row{ticks.Job(&r.Schedule, time.Time{})}, nil, false)
	if err != nil {
		return dibs.Enqueued{}, classify("run schedule", err)
	}
	return out[0], nil // it has woken the workers
}

// NextTicks implements dibs.Schedules.
func (s *Store) NextTicks(ctx context.Context, of dibs.Schedule, n int) ([]time.Time, error) {
	if err := s.check(ctx, "next ticks"); err != nil {
		return nil, err
	}
	_, now, err := s.readSchedules(ctx, s.upkeep, []string{}, nil)
	if err != nil {
		return nil, classify("next ticks", err)
	}
	return ticks.NextTicks(&of, n, now)
}
