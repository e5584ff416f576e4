package rowstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// liveJob is the part of a live job that operators' calls need. Its exported fields are what edit.sql writes.
type liveJob struct {
	ID       int64 `json:"id"`
	Priority int   `json:"priority"`
	RunAt    int64 `json:"run_at"`
	Gate     int   `json:"gate"`
	queue    string
	running  bool
	attempt  int
	group    string
	created  time.Time
	links    links
	stepped  bool // the job has steps
}

// readLive reads those of the jobs that have not ended.
func (s *Session) readLive(ids ...int64) ([]*liveJob, error) {
	var jobs []*liveJob
	err := s.each("live", func(rows *sql.Rows) error {
		j := &liveJob{}
		err := rows.Scan(&j.ID, reads.Text(&j.queue), &j.Gate, &j.running, &j.Priority, &j.RunAt, &j.attempt, reads.Text(&j.group), reads.Time(&j.created),
			&j.links.followed, &j.links.inFlow, &j.stepped)
		jobs = append(jobs, j)
		return err
	}, jsonIDs(ids))
	if err == nil {
		err = s.noneHeld(ids, len(jobs), false)
	}
	slices.SortFunc(jobs, func(a, b *liveJob) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, err
}

// distinct returns ids in order without duplicates.
func distinct(ids []int64) []int64 { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// countLeaving takes a job that no longer waits out of the counts, and touches its group.
func (s *Session) countLeaving(j *liveJob) {
	s.touch(j.queue, j.group)
	s.count(j.queue, func(t *tally) {
		if j.Gate == gateBlocked || j.Gate == gateAfter {
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
	jobs, err := s.readLive(distinct(ids)...)
	if err != nil {
		return nil, nil, err
	}
	var all fates
	for _, j := range jobs {
		if j.running {
			asked = append(asked, j.ID)
			continue
		}
		q, err := s.ensureQueue(j.queue) // makes the queue again if somebody has deleted it
		if err != nil {
			return nil, nil, err
		}
		ended = append(ended, j.ID)
		s.countLeaving(j)
		s.end(fate{ID: j.ID, State: dibs.Cancelled, Cancel: true, links: j.links, stepped: j.stepped}, q, &all)
	}
	if len(asked) > 0 {
		s.later("cancel", jsonIDs(asked))
	}
	s.writeFates(&all, s.now())
	return ended, asked, s.settle()
}

// endedJob is the part of a finished job that Requeue needs. Its exported fields are what reopen.sql writes.
type endedJob struct {
	ID                      int64 `json:"id"`
	Gate                    int   `json:"gate"`
	Holds                   bool  `json:"holds"` // the job gets its unique key back
	Keeps                   bool  `json:"keeps"` // it keeps its run_at: it was cancelled because of another
	queue, group, uniqueKey string
	state                   dibs.State
	at                      time.Time // when it ended
	links                   links
}

// readEnded reads those of the jobs that ended at until or before, or whenever they ended if it is zero.
func (s *Session) readEnded(ids []int64, until time.Time) ([]*endedJob, error) {
	var jobs []*endedJob
	ids, found := distinct(ids), 0
	err := s.each("ended", func(rows *sql.Rows) error {
		j := &endedJob{}
		err := rows.Scan(&j.ID, reads.Text(&j.queue), reads.Text(&j.state), reads.Text(&j.group), reads.Text(&j.uniqueKey), &j.Holds, reads.Time(&j.at),
			&j.links.followed, &j.links.inFlow)
		found++
		if until.IsZero() || !j.at.After(until) {
			jobs = append(jobs, j)
		}
		return err
	}, jsonIDs(ids))
	if err == nil {
		err = s.noneHeld(ids, found, true)
	}
	slices.SortFunc(jobs, func(a, b *endedJob) int { return cmp.Compare(a.ID, b.ID) })
	return jobs, err
}

// Requeue puts jobs back to waiting that ended at until or before.
func (s *Store) Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	return s.changeEnded(ctx, "requeue", ids, until, (*Session).requeue)
}

// DeleteEnded deletes jobs that ended at until or before.
func (s *Store) DeleteEnded(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	return s.changeEnded(ctx, "delete", ids, until, nil)
}

// changeEnded removes those of the jobs from the finished ones that ended at until or before, or whenever they ended if
// it is zero, after a change to them if there is one. It returns their ids.
func (s *Store) changeEnded(ctx context.Context, name string, ids []int64, until time.Time, change func(*Session, []*endedJob) error) (done []int64, err error) {
	if err := checks.Until(until); err != nil {
		return nil, err
	}
	if err := checks.IDs(ids); err != nil {
		return nil, err
	}
	err = s.write(ctx, name, func(tx *Session) error {
		keys, err := tx.lockKeysOf(ids)
		if err != nil {
			return err
		}
		jobs, err := tx.readEnded(ids, until)
		if err != nil {
			return err
		}
		if change == nil { // those that are kept for others are not deleted
			jobs = slices.DeleteFunc(jobs, func(j *endedJob) bool { return j.links.followed })
		}
		done = nil
		for _, j := range jobs {
			done = append(done, j.ID)
		}
		if change != nil {
			revived, more, err := tx.revived(jobs)
			if err != nil {
				return err
			}
			for _, j := range revived {
				j.Keeps = true
			}
			jobs, keys = append(jobs, revived...), append(keys, more...)
			if err := tx.keysLocked(jobs, keys); err != nil {
				return err
			}
			if err := change(tx, jobs); err != nil {
				return err
			}
		}
		var gone []int64
		for _, j := range jobs {
			gone = append(gone, j.ID)
			tx.count(j.queue, func(t *tally) { t.ended(j.state, -1) })
		}
		tx.later("remove_finished", jsonIDs(gone))
		if change == nil {
			tx.later("drop_steps", jsonIDs(gone))
		}
		return tx.settle()
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// requeue puts jobs back to waiting. If several have the same unique key, the first gets it back.
func (s *Session) requeue(jobs []*endedJob) error {
	now := s.now()
	waiting, err := s.reopenEdges(jobs)
	if err != nil {
		return err
	}
	type key struct{ queue, key string }
	held := make(map[key]bool)
	for _, j := range jobs {
		k := key{j.queue, j.uniqueKey}
		j.Holds = j.Holds && !held[k]
		held[k] = held[k] || j.Holds
		if j.Gate = firstGate(j.group, now, now); waiting[j.ID] {
			j.Gate = gateAfter
		}
		s.countArrival(j.queue, j.group, j.Gate)
	}
	laterRows(s, "reopen", jobs, now)
	return s.waitAgain(jobs, waiting)
}

// Edit changes the priority or run_at of jobs that wait.
func (s *Store) Edit(ctx context.Context, ids []int64, e admin.Edit) ([]int64, error) {
	if err := checks.Edit(ids, e); err != nil {
		return nil, err
	}
	var done []int64
	err := s.write(ctx, "edit", func(tx *Session) (err error) {
		done, err = tx.edit(ids, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

func (s *Session) edit(ids []int64, e admin.Edit) (done []int64, err error) {
	now := s.now()
	jobs, err := s.readLive(distinct(ids)...)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j *liveJob) bool { return j.running })
	for _, j := range jobs {
		done = append(done, j.ID)
		if e.Priority != nil {
			j.Priority = *e.Priority
		}
		runAt := j.RunAt
		if e.RunAt != nil {
			runAt = max(now, e.RunAt.UnixMicro())
		}
		if err := s.move(j, runAt, j.group); err != nil {
			return nil, err
		}
	}
	laterRows(s, "edit", jobs)
	return done, s.settle()
}

// move gives a waiting job another run_at, group and gate. A job with a group gives up its
// place and competes for it again, unless it waits for its retry in a strict queue.
func (s *Session) move(j *liveJob, runAt int64, group string) error {
	now := s.now()
	q, err := s.ensureQueue(j.queue) // makes the queue again if somebody has deleted it
	if err != nil {
		return err
	}
	s.countLeaving(j)
	keeps := q.Strict && j.attempt > 0 && j.Gate == gateReady && group == j.group
	j.RunAt, j.group = runAt, group
	switch {
	case keeps:
		j.Gate = gateReady
	case j.Gate != gateAfter: // a job that waits for others goes on waiting for them
		j.Gate = firstGate(group, runAt, now)
	}
	s.countArrival(j.queue, group, j.Gate)
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
		err := s.write(ctx, "prune", func(tx *Session) (err error) {
			n, err = tx.prune(queue, state, tx.now()-micro(olderThan))
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
