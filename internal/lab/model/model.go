// Package model is the work queue of package dibs in its plainest form: a map of jobs
// and a sort. It reads as the specification of every verb, and [Check] drives it in
// lockstep with a real store, by random calls, and compares every answer.
//
// It has no database, and only its caller moves its clock. Jobs are numbered from 1, and
// so are the claims that took jobs: see [Token].
package model

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Model is a whole database in memory.
type Model struct {
	// Lazy makes groups give their places at the next sweep, as on PostgreSQL, rather
	// than at the end of each call, as on SQLite. See docs/design/0001-storage.md.
	Lazy bool
	// AtOnce makes a call that replaces a job several times see only what becomes of it in the end, as one statement does.
	AtOnce bool

	inTx      bool      // a transaction is open
	now       time.Time // advances by 1 us with each call, so that no two calls are at the same time
	jobs      map[int64]*job
	lastID    int64 // id of the newest job
	lastClaim int   // number of the newest claim
	queues    map[string]*queue
	pending   map[group]bool   // groups that are yet to give their places
	periods   map[group]period // the last job with a period, by queue and unique key
	admission int              // number of the newest admission
	left      map[int64]string // groups in which jobs held a place when this call replaced them
}

// period is a time for which a job holds its unique key, whatever becomes of it.
type period struct {
	job   int64
	until time.Time
}

type job struct {
	dibs.RawJob
	holdsKey   bool
	holdsPlace bool // waits, and holds one of its group's places
	turn       turn // only jobs of a fair queue have one
	follows    bool // waits for jobs that it comes after
	edges      []edge
}

type queue struct {
	dibs.Queue
	limits map[string]int   // limits of groups that have their own, by group
	turn   int              // the turn to which claims have come, in a fair queue
	counts admin.QueueStats // Enqueued, Claimed, Succeeded and Failed since time last passed
}

type group struct{ queue, key string }

// newModel makes an empty database.
func newModel(lazy bool) *Model {
	return &Model{
		Lazy: lazy, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		jobs: map[int64]*job{}, queues: map[string]*queue{}, pending: map[group]bool{}, periods: map[group]period{},
	}
}

// Token returns the token of the n-th claim.
func Token(n int) (t dibs.Token) {
	binary.BigEndian.PutUint64(t[8:], uint64(n))
	return t
}

// Pass lets time pass.
func (m *Model) Pass(d time.Duration) {
	m.now = m.now.Add(d)
	for _, q := range m.queues {
		q.counts = admin.QueueStats{}
	}
}

// Claim takes the first due jobs in the queue's order.
func (m *Model) Claim(r dibs.ClaimRequest) []*dibs.RawJob {
	m.tick()
	q := m.queue(r.Queue)
	if q.Paused {
		return nil
	}
	room := r.N
	if q.Concurrency > 0 {
		running := m.find(func(j *job) bool { return j.Queue == q.Name && j.State == dibs.Running })
		room = max(0, min(r.N, q.Concurrency-len(running)))
	}
	due := m.find(func(j *job) bool {
		return j.Queue == q.Name && m.free(j) && !j.RunAt.After(m.now) &&
			(len(r.Kinds) == 0 || slices.Contains(r.Kinds, j.Kind))
	})
	sortBy(due, q.Order)
	due = due[:min(room, len(due))]
	for _, j := range due {
		q.turn = max(q.turn, j.turn.n)
		j.State, j.holdsPlace, j.Worker = dibs.Running, false, r.Worker
		if j.UniqueUntil == dibs.UntilClaimed {
			j.holdsKey = false
		}
	}
	return m.hold(q, due, r.Lease)
}

// Resume gives a worker of the same name what it still holds, under a new token.
func (m *Model) Resume(r dibs.ClaimRequest) []*dibs.RawJob {
	m.tick()
	q := m.queue(r.Queue)
	held := m.find(func(j *job) bool {
		return j.Queue == q.Name && j.Worker == r.Worker && m.valid(j.Lease()) != nil &&
			j.Attempt-j.Excused < j.MaxAttempts && !j.CancelRequested
	})
	order := q.Order
	if order == dibs.Fair { // a worker's own jobs come by priority and age
		order = dibs.FIFO
	}
	sortBy(held, order)
	return m.hold(q, held, r.Lease)
}

// hold starts an attempt of each job under one new token.
func (m *Model) hold(q *queue, jobs []*job, lease time.Duration) []*dibs.RawJob {
	if len(jobs) > 0 {
		m.lastClaim++
	}
	for _, j := range jobs {
		j.Attempt++
		j.Token, j.ClaimedAt, j.LeaseUntil = Token(m.lastClaim), m.now, m.now.Add(cmp.Or(lease, q.Lease))
		q.counts.Claimed++
	}
	return m.show(jobs)
}

// valid returns the job of a lease if the job has its token and the lease has not ended, else nil.
func (m *Model) valid(l dibs.Lease) *job {
	if j := m.jobs[l.ID]; j != nil && j.State == dibs.Running && j.Token == l.Token && j.LeaseUntil.After(m.now) {
		return j
	}
	return nil
}

// Finish writes how attempts ended, and returns the ids of those that it refused.
func (m *Model) Finish(outcomes []dibs.Outcome) (lost []int64) {
	m.tick()
	for _, o := range outcomes {
		if j := m.valid(dibs.Lease{ID: o.ID, Token: o.Token}); j != nil {
			m.finish(j, o)
		} else {
			lost = append(lost, o.ID)
		}
	}
	m.settle()
	return lost
}

func (m *Model) finish(j *job, o dibs.Outcome) {
	q, state := m.queue(j.Queue), j.After(o)
	if o.LeavesError() {
		m.note(j, o.Error)
	}
	if state.Final() {
		j.Result = o.Result
		m.end(j, state)
		if len(o.Add) > 0 {
			m.add(j, o.Add)
		}
		return
	}
	switch o.Ending {
	case dibs.EndRelease:
		j.Excused++
		m.giveBack(j, true)
		return
	case dibs.EndSnooze:
		j.Excused++
	case dibs.EndRetry:
		q.counts.Failed++
	}
	delay := q.Backoff.Delay(j.Attempt-j.Excused, 0) // tests with a model set jitter to 0
	if o.Delay != nil {
		delay = *o.Delay
	}
	j.RunAt = m.now.Add(delay)
	m.giveBack(j, q.Strict)
}

// note adds an entry to a job's error history, which keeps only the last ones.
func (m *Model) note(j *job, err string) {
	e := dibs.AttemptError{Attempt: j.Attempt, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, At: m.now, Worker: j.Worker, Error: checks.ErrorText(err)}
	j.Errors = checks.History(slices.Clone(j.Errors), e)
}

// end gives a job its final state, or deletes it if its queue does not keep such jobs.
func (m *Model) end(j *job, state dibs.State) {
	q := m.queue(j.Queue)
	switch state {
	case dibs.Completed:
		q.counts.Succeeded++
	case dibs.Dead:
		q.counts.Failed++
	}
	m.pending[group{j.Queue, j.Group}] = true
	j.State, j.FinishedAt, j.follows = state, m.now, false
	j.Token, j.LeaseUntil, j.holdsKey, j.holdsPlace = dibs.Token{}, time.Time{}, false, false
	if retention(q.Queue, state) == 0 {
		delete(m.jobs, j.ID)
	}
}

func retention(q dibs.Queue, state dibs.State) time.Duration {
	return map[dibs.State]time.Duration{
		dibs.Completed: q.KeepCompleted, dibs.Dead: q.KeepDead, dibs.Cancelled: q.KeepCancelled,
	}[state]
}

// giveBack makes a running job wait again. A job that keeps its place competes for it with
// the others of its group; a job without it lets the next one pass.
func (m *Model) giveBack(j *job, keepsPlace bool) {
	j.Token, j.LeaseUntil = dibs.Token{}, time.Time{}
	m.wait(j)
	if keepsPlace && j.Group != "" {
		j.State, j.holdsPlace = dibs.Waiting, true
	}
}

// wait makes a job wait without a place.
func (m *Model) wait(j *job) {
	j.State, j.holdsPlace = dibs.Waiting, false
	if j.follows || j.Group != "" && !j.RunAt.After(m.now) {
		j.State = dibs.Blocked
	}
	m.pending[group{j.Queue, j.Group}] = true
}

// free reports whether a job can be claimed once it is due.
func (m *Model) free(j *job) bool { return j.State == dibs.Waiting && (j.Group == "" || j.holdsPlace) }

// settle looks at the jobs that come after others, and gives the places of the groups in which something changed.
func (m *Model) settle() {
	if !m.Lazy || !m.inTx {
		m.settleFlows(true)
	}
	if !m.Lazy {
		m.admit()
	}
}

func (m *Model) admit() {
	m.admission++
	for g := range m.pending {
		if g.key != "" {
			m.admitGroup(g)
		}
	}
	clear(m.pending)
}

// admitGroup gives a group's places that no running job uses to the first of its jobs by
// (priority, run_at, id). In a strict queue a started job comes before them, due or not;
// elsewhere a job that is not due holds no place.
func (m *Model) admitGroup(g group) {
	q := m.queue(g.queue)
	places := q.limit(g.key)
	rivals := m.find(func(j *job) bool {
		if j.Queue != g.queue || j.Group != g.key {
			return false
		}
		if j.State == dibs.Running {
			places--
		}
		if j.holdsPlace && !q.Strict && j.RunAt.After(m.now) {
			m.wait(j)
		}
		return j.holdsPlace || j.State == dibs.Blocked && !j.follows
	})
	sortBy(rivals, dibs.FIFO)
	slices.SortStableFunc(rivals, func(a, b *job) int {
		started := func(j *job) int {
			if q.Strict && j.holdsPlace && j.Attempt > 0 {
				return 0
			}
			return 1
		}
		return cmp.Compare(started(a), started(b))
	})
	turns := m.newTurns(q, rivals, places)
	for i, j := range rivals {
		if turns != nil && i < places {
			j.turn = turns[i]
		}
		if m.wait(j); i < places {
			j.State, j.holdsPlace = dibs.Waiting, true
		}
	}
}

// queue returns a queue, and creates it with the default settings if it is new.
func (m *Model) queue(name string) *queue {
	q := m.queues[name]
	if q == nil {
		q = &queue{Queue: dibs.DefaultSettings(name), limits: map[string]int{}}
		m.queues[name] = q
	}
	return q
}

func (q *queue) limit(group string) int {
	if group == "" {
		return 0
	}
	return cmp.Or(q.limits[group], q.GroupLimit)
}

// find returns the jobs for which f is true, by id.
func (m *Model) find(f func(*job) bool) []*job {
	var found []*job
	for id := int64(1); id <= m.lastID; id++ {
		if j := m.jobs[id]; j != nil && f(j) {
			found = append(found, j)
		}
	}
	return found
}

// sortBy puts jobs into a queue's order.
func sortBy(jobs []*job, order dibs.Order) {
	slices.SortFunc(jobs, func(a, b *job) int {
		c := cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
		if order == dibs.LIFO {
			c = -c
		}
		if order == dibs.Fair {
			if t := a.turn.compare(b.turn); t != 0 || a.turn.n > 0 {
				return cmp.Or(t, cmp.Compare(a.ID, b.ID))
			}
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), c)
	})
}

// show returns jobs as their users see them.
func (m *Model) show(jobs []*job) []*dibs.RawJob {
	var shown []*dibs.RawJob
	for _, j := range jobs {
		seen := j.RawJob
		seen.GroupLimit = m.queue(j.Queue).limit(j.Group)
		shown = append(shown, &seen)
	}
	return shown
}

// look shows jobs with their periods and the keys that they hold, as Get and List do.
func (m *Model) look(jobs []*job) []*dibs.RawJob {
	shown := m.show(jobs)
	for i, j := range shown {
		j.WaitsFor = m.waitsFor(jobs[i])
		if p := m.periods[group{j.Queue, j.UniqueKey}]; p.job == j.ID && p.until.After(m.now) {
			j.UniqueFreeAt = p.until
		} else if !jobs[i].holdsKey && !j.State.Final() {
			j.UniqueKey, j.UniqueUntil = "", ""
		}
	}
	return shown
}

func (m *Model) tick() { m.now = m.now.Add(time.Microsecond) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
