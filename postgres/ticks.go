package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/ticks"
)

const (
	tickBatch = 100     // most schedules in one transaction
	tickJobs  = 2000    // most jobs in one transaction
	tickBytes = 8 << 20 // most bytes of the payloads of these jobs
	tickRetry = 100 * time.Millisecond
)

// lookForTicks sets the timer anew, after this process has changed schedules. Other processes
// look once a second.
func (s *Store) lookForTicks(ctx context.Context) {
	var due clockDue
	if s.tends.Load() && s.upkeep.run(ctx, s.clockStep(&due)) == nil {
		_ = s.mindTicks(ctx, due) // an error is reported by the next sweep
	}
}

// tick enqueues the jobs of the ticks that have come, and sets the timer to the next one.
// Schedules that this program cannot read, as a newer one has made them, are left to others.
func (s *Store) tick(ctx context.Context) error {
	var unreadable []error
	left := []string{}
	for more := true; more; {
		var queues []string
		err := s.transact(ctx, "tick", func(c conn) (err error) {
			r := tickRound{conn: c, leave: left}
			err = s.tickSome(ctx, &r)
			queues, more = r.queues, r.more
			if left = r.leave; err == nil {
				unreadable = append(unreadable, r.unreadable...)
			}
			return err
		})
		if err != nil {
			return wrap("tick", err)
		}
		for _, q := range queues {
			s.Wake(q)
		}
	}
	var due clockDue
	if err := s.upkeep.run(ctx, s.clockStep(&due)); err != nil {
		return wrap("tick", err)
	}
	switch {
	case due.nextTick == nil:
		s.timer.Unset()
	case s.tends.Load() && len(unreadable) > 0:
		s.timer.Set(max(us(*due.nextTick), time.Second))
	case s.tends.Load(): // a tick that is due already is being taken by another process, which may also have just stopped
		s.timer.Set(max(us(*due.nextTick), tickRetry))
	}
	if len(unreadable) > 0 {
		return unreadableError{errors.Join(unreadable...)}
	}
	return nil
}

// unreadableError says which schedules cannot be read. Their ticks are left out; all other ticks were taken.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// tickRound is one transaction that takes ticks.
type tickRound struct {
	conn
	leave      []string // names of schedules to leave to others
	unreadable []error  // the errors of schedules that could not be read, which leave names too
	queues     []string // queues that got jobs
	more       bool     // other schedules may be due
}

// tickSome takes schedules whose ticks have come, in one transaction with their jobs and
// their next ticks.
func (s *Store) tickSome(ctx context.Context, r *tickRound) error {
	list, now, err := s.readSchedules(ctx, r, "schedules_due", tickBatch, r.leave) // the statement locks them
	if err != nil || len(list) == 0 {
		return err
	}
	busy, err := s.busyJobs(ctx, r, list)
	if err != nil {
		return err
	}
	r.more = len(list) == tickBatch
	var rows []checks.Row
	var names []string
	var following, last []*time.Time
	var places []int // places[i] is where in rows the last job of schedule i is; -1: it gets none
	budget := ticks.Budget{Jobs: tickJobs, Bytes: tickBytes}
	for i := range list {
		row := &list[i]
		due, next, more, err := budget.Ticks(&row.Schedule, now, busy[row.LastJob])
		if err != nil {
			r.leave, r.unreadable = append(r.leave, row.Name), append(r.unreadable, err)
			continue
		}
		r.more = r.more || more
		names, following, last, places = append(names, row.Name), append(following, orNull(next)), append(last, nil), append(places, -1)
		for j := range due {
			places[len(places)-1], last[len(last)-1] = len(rows), &due[j]
			rows = append(rows, ticks.Job(&row.Schedule, due[j]))
		}
	}
	var out []dibs.Enqueued
	if len(rows) > 0 {
		if out, r.queues, err = s.enqueueRows(ctx, rows, r, false); err != nil {
			return err
		}
	}
	jobs := make([]*int64, len(names))
	for i, at := range places {
		if at >= 0 {
			jobs[i] = &out[at].ID
		}
	}
	return r.run(ctx, s.step("schedules_ticked", names, following, last, jobs))
}

// busyJobs returns the schedules' last jobs that have not ended, for schedules that skip a tick while the last job
// runs.
func (s *Store) busyJobs(ctx context.Context, r *tickRound, list []scheduleRow) (busy map[int64]bool, err error) {
	var ids []int64
	for i := range list {
		if list[i].SkipOverlap && list[i].LastJob > 0 {
			ids = append(ids, list[i].LastJob)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	busy = map[int64]bool{}
	return busy, r.run(ctx, among(s.step("schedules_busy", ids), busy))
}
