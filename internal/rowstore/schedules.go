package rowstore

import (
	"context"
	"database/sql"
	"reflect"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
	"github.com/dibs-queue/dibs/internal/ticks"
)

// schedules reads schedules by their names, or all if names is empty; those named in whole with their payloads.
func (s *Session) schedules(names, whole []string) ([]dibs.Schedule, error) {
	var all []dibs.Schedule
	err := s.each("schedules", func(rows *sql.Rows) error {
		r, err := reads.Schedule(rows.Scan, new(time.Time), new(int64))
		if r != nil {
			all = append(all, *r)
		}
		return err
	}, jsonList(names), jsonList(whole))
	return all, err
}

// scheduleNamed reads the schedule with a name; nil if there is none.
func (s *Session) scheduleNamed(name string) (*dibs.Schedule, error) {
	list, err := s.schedules([]string{name}, []string{name})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// scheduleOf reads the schedule with a name, if it belongs to one of the queues. If queues is nil, any queue will do.
func (s *Session) scheduleOf(name string, queues []string) (*dibs.Schedule, error) {
	one, err := s.scheduleNamed(name)
	if err == nil && (one == nil || !ticks.Of(one, queues)) {
		err = ticks.Unknown(name)
	}
	return one, err
}

// changeSchedule calls f with the schedule, or with nil if there is none, and stores what f
// returns.
func (s *Store) changeSchedule(ctx context.Context, op, name string, f func(old *dibs.Schedule) (dibs.Schedule, error)) (dibs.Schedule, error) {
	return call(ctx, s, op, nil, func(tx *Session) (after dibs.Schedule, err error) {
		if err := tx.keepTicks(); err != nil {
			return after, err
		}
		old, err := tx.scheduleNamed(name)
		if err == nil {
			after, err = f(old)
		}
		if err != nil {
			return after, err
		}
		after, err = ticks.Replace(after, old, fromMicro(tx.now()), func() ([]dibs.Schedule, error) { return tx.schedules(nil, nil) }, tx.payloadLimitOf)
		if err == nil {
			tx.putSchedule(&after)
		}
		return after, err
	})
}

// keepTicks keeps other transactions from taking ticks and changing schedules until this one ends. So nobody takes a
// tick between the time when it is read here and when the next one is written.
func (s *Session) keepTicks() error { return s.needTurn(TurnTicks, "", false) }

func (s *Session) putSchedule(after *dibs.Schedule) {
	text, payload, metadata := ticks.Encode(after)
	s.later("set_schedule", after.Name, after.Owner, text, payload, metadata, after.Paused, after.Since.UnixMicro(), microOrNull(after.Next))
}

// microOrNull is a time as it is stored, or null for zero.
func microOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// payloadLimitOf is the payload limit of a queue, which need not exist.
func (s *Session) payloadLimitOf(queue string) (int, error) {
	q, err := s.queue(queue)
	if err != nil || q == nil {
		return dibs.MaxPayload, err
	}
	return q.PayloadLimit, nil
}

// SetSchedule makes a schedule or replaces the one of that name: see dibs.Schedules.
func (s *Store) SetSchedule(ctx context.Context, next dibs.Schedule, queues ...string) (dibs.Schedule, error) {
	if err := checks.Name("schedule.name", next.Name); err != nil {
		return dibs.Schedule{}, err
	}
	return s.changeSchedule(ctx, "set schedule", next.Name, func(old *dibs.Schedule) (dibs.Schedule, error) {
		return next, ticks.Replaceable(old, queues)
	})
}

// ChangeSchedule has f change a schedule: see dibs.Schedules.
func (s *Store) ChangeSchedule(ctx context.Context, name string, f func(*dibs.Schedule) error) (after dibs.Schedule, err error) {
	if err := ticks.Editable(name, f); err != nil {
		return dibs.Schedule{}, err
	}
	err = settings.Repeat("change schedule "+name, "it", func() error {
		next, seen, err := s.schedule(ctx, name)
		if err == nil {
			err = f(&next) // called outside of a transaction, as f may take long or call the store
		}
		if err != nil {
			return err
		}
		next.Name = name
		after, err = s.changeSchedule(ctx, "change schedule", name, func(old *dibs.Schedule) (dibs.Schedule, error) {
			return next, settings.OrStale(old != nil && reflect.DeepEqual(*old, seen), nil)
		})
		return err
	})
	return after, err
}

// schedule reads a schedule twice: the caller may change one of them, and the other says what it was.
func (s *Store) schedule(ctx context.Context, name string) (first, second dibs.Schedule, err error) {
	err = s.read(ctx, "schedules", func(rows *sql.Rows) error {
		one, err := reads.Schedule(rows.Scan, new(time.Time), new(int64))
		if err == nil && one == nil {
			err = ticks.Unknown(name)
		}
		if err != nil {
			return err
		}
		first = *one
		one, err = reads.Schedule(rows.Scan, new(time.Time), new(int64))
		if one != nil {
			second = *one
		}
		return err
	}, jsonList([]string{name}), jsonList([]string{name}))
	return first, second, s.wrap("change schedule", err)
}

// SetSchedules makes an owner's schedules those of the list: see dibs.Schedules.
func (s *Store) SetSchedules(ctx context.Context, owner string, list []dibs.Schedule) error {
	if err := ticks.Owner(owner); err != nil {
		return err
	}
	return s.write(ctx, "set schedules", func(tx *Session) error {
		if err := tx.keepTicks(); err != nil {
			return err
		}
		old, err := tx.schedules(nil, ticks.Names(list))
		if err != nil {
			return err
		}
		put, gone, err := ticks.Agree(owner, list, old, fromMicro(tx.now()), tx.payloadLimitOf)
		if err != nil {
			return err
		}
		for i := range put {
			tx.putSchedule(&put[i])
		}
		for _, name := range gone {
			tx.later("delete_schedule", name)
		}
		return nil
	})
}

// DeleteSchedule deletes a schedule. Its jobs stay.
func (s *Store) DeleteSchedule(ctx context.Context, name string, queues ...string) error {
	if err := checks.Name("name", name); err != nil {
		return err
	}
	return s.write(ctx, "delete schedule", func(tx *Session) error {
		if err := tx.keepTicks(); err != nil {
			return err
		}
		_, err := tx.scheduleOf(name, queues)
		if err == nil {
			tx.later("delete_schedule", name)
		}
		return err
	})
}

// RunSchedule enqueues a schedule's job now: see dibs.Schedules.
func (s *Store) RunSchedule(ctx context.Context, name string, queues ...string) (dibs.Enqueued, error) {
	return call(ctx, s, "run schedule", checks.Name("name", name), func(tx *Session) (done dibs.Enqueued, err error) {
		of, err := tx.scheduleOf(name, queues)
		if err != nil {
			return done, err
		}
		out, err := tx.enqueueTicks(of, []time.Time{{}})
		if err != nil {
			return done, err
		}
		return out[0], nil
	})
}

// Tick enqueues the jobs of the ticks that have come.
func (s *Store) Tick(ctx context.Context) error {
	return s.write(s.nearUpkeep(ctx), "tick", (*Session).tick)
}

// nextTick is when the next tick of any schedule comes, if one will.
func (s *Session) nextTick() (next time.Time, found bool, err error) {
	found, err = s.one("next_tick", nil, reads.Time(&next))
	return next, found, err
}

// One transaction takes at most tickBatch schedules, and makes at most tickJobs jobs of their
// ticks with tickBytes of payloads, as others wait for it.
const (
	tickBatch = 100
	tickJobs  = 200
	tickBytes = 1 << 20
)

// tick enqueues the jobs of the ticks that have come. Schedules that this program cannot read,
// as a newer program has made them, are left to other processes. If more is due, the next
// transaction takes it. While another transaction has the turn, tick leaves all to that.
func (s *Session) tick() error {
	s.moreTicks = false
	if got, err := s.turn(TurnTicks, "", false); err != nil || !got {
		return err
	}
	now := s.now()
	type dueSchedule struct {
		dibs.Schedule
		overlap bool
	}
	var list []dueSchedule
	err := s.each("schedules_due", func(rows *sql.Rows) error {
		var overlap bool
		r, err := reads.Schedule(rows.Scan, new(time.Time), &overlap)
		if r != nil {
			list = append(list, dueSchedule{*r, overlap})
		}
		return err
	}, now, tickBatch)
	if err != nil {
		return err
	}
	s.moreTicks = len(list) == tickBatch
	budget := ticks.Budget{Jobs: tickJobs, Bytes: tickBytes}
	for i := range list {
		r := &list[i]
		due, next, more, err := budget.Ticks(&r.Schedule, fromMicro(now), r.overlap)
		if err != nil {
			continue
		}
		s.moreTicks = s.moreTicks || more
		var lastTick, lastJob any
		if len(due) > 0 {
			out, err := s.enqueueTicks(&r.Schedule, due)
			if err != nil {
				return err
			}
			lastTick, lastJob = due[len(due)-1].UnixMicro(), out[len(out)-1].ID
		}
		s.later("schedule_ticked", r.Name, microOrNull(next), lastTick, lastJob)
	}
	return nil
}

func (s *Session) enqueueTicks(of *dibs.Schedule, due []time.Time) ([]dibs.Enqueued, error) {
	if _, err := s.keepQueue(of.Queue); err != nil {
		return nil, err
	}
	rows := make([]checks.Row, len(due))
	for i, t := range due {
		rows[i] = ticks.Job(of, t)
	}
	return s.enqueueRows(rows)
}
