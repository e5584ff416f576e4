package model

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Extend makes leases end d from now, later or sooner than before.
func (m *Model) Extend(leases []dibs.Lease, d time.Duration) (e dibs.Extended) {
	m.tick()
	for _, l := range leases {
		j := m.valid(l)
		if j == nil {
			e.Lost = append(e.Lost, l.ID)
			continue
		}
		j.LeaseUntil = m.now.Add(d)
		if j.CancelRequested {
			e.Cancelled = append(e.Cancelled, l.ID)
		}
		if most := m.queue(j.Queue).JobTimeout; most > 0 && j.ClaimedAt.Before(m.now.Add(-most)) {
			e.TimedOut = append(e.TimedOut, l.ID)
		}
	}
	return e
}

// Sweep ends attempts whose leases have ended, admits groups, and prunes.
func (m *Model) Sweep() (s dibs.Swept) {
	m.tick()
	for _, j := range m.find(func(j *job) bool { return j.State == dibs.Running && !j.LeaseUntil.After(m.now) }) {
		m.note(j, "lease expired")
		if state := j.After(dibs.Outcome{Ending: dibs.EndRetry}); state.Final() {
			m.end(j, state)
		} else {
			m.queue(j.Queue).counts.Failed++
			m.giveBack(j, true) // keeps its run_at: no backoff
		}
		s.Expired++
	}
	m.settleFlows(false) // the sweep's own transaction does it
	if !m.Lazy {
		m.admit()
	}
	for _, j := range m.find(func(j *job) bool { return j.State == dibs.Waiting && !m.free(j) && !j.RunAt.After(m.now) }) {
		m.wait(j) // the job is due now and joins its group
	}
	m.admit()
	for _, j := range m.find(func(j *job) bool { return j.State.Final() }) {
		if j.FinishedAt.Before(m.now.Add(-retention(m.queue(j.Queue).Queue, j.State))) && !m.kept(j) {
			delete(m.jobs, j.ID)
			s.Pruned++
		}
	}
	return s
}

// Begin opens a transaction and returns what Rollback needs.
func (m *Model) Begin() *Model {
	before := *m
	m.inTx = true
	before.jobs = map[int64]*job{}
	for id, j := range m.jobs {
		kept := *j
		before.jobs[id] = &kept
	}
	before.queues = map[string]*queue{}
	for name, q := range m.queues {
		kept := *q
		before.queues[name] = &kept
	}
	before.pending, before.periods = maps.Clone(m.pending), maps.Clone(m.periods)
	return &before
}

// Commit ends the transaction.
func (m *Model) Commit() {
	m.inTx = false
	m.settle()
}

// Rollback undoes the transaction, except for its time and the numbers of its tokens.
func (m *Model) Rollback(before *Model) {
	before.now, before.lastClaim = m.now, m.lastClaim
	*m = *before
}

// Cancel ends waiting jobs, and asks the workers of running ones to stop.
func (m *Model) Cancel(ids []int64) (ended, asked []int64) {
	m.tick()
	for _, j := range m.named(ids) {
		if j.State.Final() {
			continue
		}
		j.CancelRequested = true
		if j.State == dibs.Running {
			asked = append(asked, j.ID)
			continue
		}
		m.end(j, dibs.Cancelled)
		ended = append(ended, j.ID)
	}
	m.settle()
	return ended, asked
}

// causes are the jobs because of which others were cancelled.
func (m *Model) causes() (ids []int64) {
	for id := range m.lastID {
		if j := m.jobs[id+1]; j != nil && j.Cause != 0 && !slices.Contains(ids, j.Cause) {
			ids = append(ids, j.Cause)
		}
	}
	return ids
}

// Requeue puts final jobs back, due now, with all their attempts allowed again. Those that were cancelled because of
// them come back, too, and wait again.
func (m *Model) Requeue(ids []int64) (requeued []int64) {
	m.tick()
	back := slices.DeleteFunc(m.named(ids), func(j *job) bool { return !j.State.Final() })
	for _, j := range back {
		requeued = append(requeued, j.ID)
	}
	revived := slices.DeleteFunc(m.revived(back), func(j *job) bool { return slices.Contains(requeued, j.ID) })
	for _, j := range append(back, revived...) {
		j.holdsKey = j.UniqueKey != "" && m.holder(j.Queue, j.UniqueKey) == nil &&
			(j.UniqueUntil == dibs.UntilFinished || j.Attempt == 0)
		j.Excused, j.CancelRequested, j.Result, j.FinishedAt, j.Cause = j.Attempt, false, nil, time.Time{}, 0
		if j.follows = slices.Contains(revived, j); !j.follows {
			j.RunAt = m.now
		}
		m.wait(j)
	}
	for _, j := range back {
		j.follows = m.waitsAgain(j)
		m.wait(j)
	}
	m.settle()
	return requeued
}

// Edit changes waiting jobs.
func (m *Model) Edit(ids []int64, e admin.Edit) (edited []int64) {
	m.tick()
	for _, j := range m.named(ids) {
		if j.State != dibs.Waiting && j.State != dibs.Blocked {
			continue
		}
		if e.Priority != nil {
			j.Priority = *e.Priority
		}
		if e.RunAt != nil {
			j.RunAt = later(m.now, *e.RunAt)
		}
		m.compete(j)
		edited = append(edited, j.ID)
	}
	m.settle()
	return edited
}

// compete makes a waiting job give up its place in its group and compete for it again, unless
// it has been started in a strict queue.
func (m *Model) compete(j *job) {
	keepsPlace := j.holdsPlace && m.queue(j.Queue).Strict && j.Attempt > 0
	if m.wait(j); keepsPlace {
		j.State, j.holdsPlace = dibs.Waiting, true
	}
}

// Prune deletes final jobs that finished longer than olderThan ago.
func (m *Model) Prune(queue string, state dibs.State, olderThan time.Duration) int {
	m.tick()
	pruned := m.find(func(j *job) bool {
		return j.State.Final() && (queue == "" || j.Queue == queue) && (state == "" || j.State == state) &&
			!j.FinishedAt.After(m.now.Add(-olderThan)) && !m.kept(j)
	})
	for _, j := range pruned {
		delete(m.jobs, j.ID)
	}
	return len(pruned)
}

// SetQueue changes the named settings; running jobs go on.
func (m *Model) SetQueue(name string, c dibs.QueueChange) (dibs.Queue, error) {
	m.tick()
	q := m.queue(name)
	after := q.Queue
	err := checks.Name("queue", name)
	if err == nil {
		after, err = checks.Changed(after, c.Apply)
	}
	if err != nil {
		return dibs.Queue{}, err
	}
	fair := after.Order == dibs.Fair && q.Order != dibs.Fair
	if after.GroupLimit != q.GroupLimit || after.Strict != q.Strict || fair {
		for _, j := range m.find(func(j *job) bool { return j.Queue == name }) {
			m.pending[group{name, j.Group}] = true
		}
	}
	q.Queue = after
	if fair {
		m.beginTurns(q)
	}
	m.settle()
	return after, nil
}

// SetGroup gives one group its own limit; 0 takes it away again.
func (m *Model) SetGroup(name, key string, limit int) {
	m.tick()
	q := m.queue(name)
	q.limits = maps.Clone(q.limits)
	q.limits[key] = limit
	m.pending[group{name, key}] = true
	m.settle()
}

// Queues lists all queues by name.
func (m *Model) Queues() []dibs.Queue {
	var all []dibs.Queue
	for _, name := range slices.Sorted(maps.Keys(m.queues)) {
		all = append(all, m.queues[name].Queue)
	}
	return all
}

// Stats counts the jobs of every queue, and what has happened since time last passed.
func (m *Model) Stats() []admin.QueueStats {
	var all []admin.QueueStats
	for _, q := range m.Queues() {
		s := m.queues[q.Name].counts
		s.Queue, s.Paused = q.Name, q.Paused
		for _, j := range m.find(func(j *job) bool { return j.Queue == q.Name }) {
			switch j.State {
			case dibs.Waiting:
				s.Waiting++
				if j.RunAt.After(m.now) {
					s.Scheduled++
				} else if m.free(j) {
					s.OldestAge = max(s.OldestAge, m.now.Sub(j.RunAt))
				}
			case dibs.Blocked:
				s.Blocked++
			case dibs.Running:
				s.Running++
			case dibs.Completed:
				s.Completed++
			case dibs.Dead:
				s.Dead++
			case dibs.Cancelled:
				s.Cancelled++
			}
		}
		all = append(all, s)
	}
	return all
}

// Get returns one job, or nil.
func (m *Model) Get(id int64) *dibs.RawJob {
	if j := m.jobs[id]; j != nil {
		return m.look([]*job{j})[0]
	}
	return nil
}

// List returns all pages of a list: by descending id, and final jobs last finished first.
func (m *Model) List(f admin.Filter) []*dibs.RawJob {
	jobs := m.find(func(j *job) bool {
		return (j.State == f.State || f.State == "" && !j.State.Final()) && (f.Queue == "" || j.Queue == f.Queue) &&
			(f.Kind == "" || j.Kind == f.Kind) && (f.Group == "" || j.Group == f.Group) && (f.Worker == "" || j.Worker == f.Worker)
	})
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(b.FinishedAt.Compare(a.FinishedAt), cmp.Compare(b.ID, a.ID))
	})
	return m.look(jobs)
}

// named returns the jobs with these ids, each once, by id.
func (m *Model) named(ids []int64) []*job {
	return m.find(func(j *job) bool { return slices.Contains(ids, j.ID) })
}
