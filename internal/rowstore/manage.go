package rowstore

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// liveJob is the part of a live job that operators' calls need.
type liveJob struct {
	id       int64
	queue    string
	gate     int
	running  bool
	priority int
	runAt    int64
	attempt  int
	group    string
	errors   []dibs.AttemptError
	created  time.Time
}

func (s *Session) readLive(id int64) (*liveJob, error) {
	j := &liveJob{id: id}
	found, err := s.one("live", []any{id}, text[string]{&j.queue}, &j.gate, &j.running, &j.priority, &j.runAt, &j.attempt, text[string]{&j.group}, history{&j.errors}, clock{&j.created})
	if !found {
		return nil, err
	}
	return j, err
}

// distinct returns ids in order without duplicates.
func distinct(ids []int64) []int64 { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// countLeaving uncounts a job that no longer waits, and has its group settled.
func (s *Session) countLeaving(j *liveJob) {
	s.touch(j.queue, j.group)
	s.count(j.queue, func(t *tally) {
		if j.gate == gateBlocked {
			t.blocked--
		} else {
			t.waiting--
		}
	})
}

// Cancel ends jobs that wait, and asks the holders of running ones to stop.
func (s *Store) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	if err := checks.IDs(ids); err != nil {
		return nil, nil, err
	}
	err = s.write(ctx, "cancel", func(tx *Session) (err error) {
		ended, asked, err = tx.cancelAll(ids)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	s.waits.Ended(func() []int64 { return ended })
	return ended, asked, nil
}

func (s *Session) cancelAll(ids []int64) (ended, asked []int64, err error) {
	var gone endings
	for _, id := range distinct(ids) {
		state, err := s.cancel(id, &gone)
		if err != nil {
			return nil, nil, err
		}
		switch state {
		case dibs.Cancelled:
			ended = append(ended, id)
		case dibs.Running:
			asked = append(asked, id)
		}
	}
	if err := s.flush(&gone, s.callTime); err != nil {
		return nil, nil, err
	}
	return ended, asked, s.settle()
}

// cancel returns cancelled if the job has ended, running if its holder is asked to stop, else "".
func (s *Session) cancel(id int64, gone *endings) (dibs.State, error) {
	j, err := s.readLive(id)
	if err != nil || j == nil {
		return "", err
	}
	if _, err := s.exec("cancel", id); err != nil || j.running {
		return dibs.Running, err
	}
	q, err := s.ensureQueue(j.queue) // somebody may have deleted it
	if err != nil {
		return "", err
	}
	now, err := s.now()
	if err != nil {
		return "", err
	}
	s.countLeaving(j)
	return dibs.Cancelled, s.end(id, q, fate{state: dibs.Cancelled, decidedAt: now, errors: j.errors}, gone)
}

// endedJob is the part of a finished job that Requeue needs.
type endedJob struct {
	queue, group, uniqueKey string
	state                   dibs.State
	uniqueUntil             dibs.UniqueUntil
	attempt                 int
	at                      time.Time // when it ended
}

func (s *Session) readEnded(id int64) (*endedJob, error) {
	j := &endedJob{}
	found, err := s.one("ended", []any{id}, text[string]{&j.queue}, text[dibs.State]{&j.state}, &j.attempt,
		text[string]{&j.group}, text[string]{&j.uniqueKey}, text[dibs.UniqueUntil]{&j.uniqueUntil}, clock{&j.at})
	if !found {
		return nil, err
	}
	return j, err
}

// Requeue puts final jobs back to waiting.
func (s *Store) Requeue(ctx context.Context, ids []int64) ([]int64, error) {
	return s.RequeueEnded(ctx, ids, time.Time{})
}

// RequeueEnded puts jobs back to waiting that ended at until or before.
func (s *Store) RequeueEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	return s.changeEnded(ctx, "requeue", ids, until, (*Session).requeue)
}

// DeleteEnded deletes jobs that ended at until or before.
func (s *Store) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	return s.changeEnded(ctx, "delete", ids, until, func(tx *Session, id int64, j *endedJob) error {
		tx.count(j.queue, func(t *tally) { t.ended(j.state, -1) })
		_, err := tx.exec("remove_finished", id)
		return err
	})
}

// changeEnded changes those of the jobs that ended at until or before, or whenever they ended if it is zero, and
// returns their ids.
func (s *Store) changeEnded(ctx context.Context, name string, ids []int64, until time.Time, change func(*Session, int64, *endedJob) error) (done []int64, err error) {
	if err := checks.Until(until); err != nil {
		return nil, err
	}
	if err := checks.IDs(ids); err != nil {
		return nil, err
	}
	err = s.write(ctx, name, func(tx *Session) (err error) {
		if err := tx.lockKeysOf(ids); err != nil {
			return err
		}
		done, err = tx.changeEach(ids, func(id int64) (bool, error) {
			j, err := tx.readEnded(id)
			if err != nil || j == nil || !until.IsZero() && j.at.After(until) {
				return false, err
			}
			return true, change(tx, id, j)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// changeEach calls change for each job and returns those that it has changed.
func (s *Session) changeEach(ids []int64, change func(id int64) (bool, error)) (changed []int64, err error) {
	for _, id := range distinct(ids) {
		done, err := change(id)
		if err != nil {
			return nil, err
		}
		if done {
			changed = append(changed, id)
		}
	}
	return changed, s.settle()
}

func (s *Session) requeue(id int64, j *endedJob) error {
	now, err := s.now()
	if err != nil {
		return err
	}
	holds, err := s.canHold(j.queue, j.uniqueKey, j.uniqueUntil, j.attempt)
	if err != nil {
		return err
	}
	gate := firstGate(j.group, now, now)
	if _, err := s.exec("reopen", id, gate, now, j.attempt, holds); err != nil {
		return err
	}
	if _, err := s.exec("remove_finished", id); err != nil {
		return err
	}
	s.count(j.queue, func(t *tally) { t.ended(j.state, -1) })
	s.countArrival(j.queue, j.group, gate)
	return nil
}

// canHold reports whether a requeued job gets its unique key back: not if another job holds
// it by now, nor if the job held it only until its first attempt.
func (s *Session) canHold(queue, key string, until dibs.UniqueUntil, attempt int) (bool, error) {
	if key == "" || (until == dibs.UntilClaimed && attempt > 0) {
		return false, nil
	}
	var other int64
	taken, err := s.one("holder", []any{queue, key}, &other)
	return !taken, err
}

// Edit changes the priority or run_at of jobs that wait.
func (s *Store) Edit(ctx context.Context, ids []int64, e dibs.Edit) ([]int64, error) {
	if err := checks.Edit(ids, e); err != nil {
		return nil, err
	}
	var done []int64
	err := s.write(ctx, "edit", func(tx *Session) (err error) {
		done, err = tx.changeEach(ids, func(id int64) (bool, error) { return tx.edit(id, e) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// edit changes a waiting job.
func (s *Session) edit(id int64, e dibs.Edit) (bool, error) {
	j, err := s.readLive(id)
	if err != nil || j == nil || j.running {
		return false, err
	}
	now, err := s.now()
	if err != nil {
		return false, err
	}
	if e.Priority != nil {
		j.priority = *e.Priority
	}
	runAt := j.runAt
	if e.RunAt != nil {
		runAt = max(now, e.RunAt.UnixMicro())
	}
	if err := s.move(j, runAt, j.group); err != nil {
		return false, err
	}
	_, err = s.exec("edit", id, j.priority, j.runAt, j.gate)
	return err == nil, err
}

// move gives a waiting job another run_at, group and gate. A grouped one gives up its place and
// competes for it again, unless it waits for its retry in a strict queue.
func (s *Session) move(j *liveJob, runAt int64, group string) error {
	now, err := s.now()
	if err != nil {
		return err
	}
	q, err := s.ensureQueue(j.queue) // somebody may have deleted it
	if err != nil {
		return err
	}
	s.countLeaving(j)
	keeps := q.Strict && j.attempt > 0 && j.gate == gateReady && group == j.group
	j.runAt, j.group = runAt, group
	if j.gate = firstGate(group, runAt, now); keeps {
		j.gate = gateReady
	}
	s.countArrival(j.queue, group, j.gate)
	return nil
}

// Prune deletes final jobs that finished longer than olderThan ago, in short transactions
// that let other writes in between.
func (s *Store) Prune(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error) {
	if err := checks.Prune(queue, state, olderThan); err != nil {
		return 0, err
	}
	names, err := s.namesOf(ctx, queue)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, name := range names {
		for _, st := range finalStates {
			if state != "" && st != state {
				continue
			}
			n, err := s.pruneAll(ctx, name, st, olderThan)
			total += n
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

func (s *Store) pruneAll(ctx context.Context, queue string, state dibs.State, olderThan time.Duration) (int, error) {
	for total := 0; ; {
		n := 0
		err := s.write(ctx, "prune", func(tx *Session) error {
			now, err := tx.now()
			if err != nil {
				return err
			}
			n, err = tx.prune(queue, state, now-micro(olderThan))
			return err
		})
		if err != nil {
			return total, err
		}
		if total += n; n < maxPrune {
			return total, nil
		}
	}
}
