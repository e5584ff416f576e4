// Package waits lets any number of goroutines wait for the ends of jobs at the cost of one:
// a goroutine of the store asks about all jobs that are waited for, in one statement, and ends
// when nobody waits.
package waits

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

const (
	// The time from one look at a job to the next is a quarter of the time for which its
	// newest waiter has waited. So the end of a job is seen soon, compared with how long the
	// job took.
	leastPause  = 5 * time.Millisecond
	mostPause   = time.Second
	pausePart   = 4
	lookTimeout = 10 * time.Second // a look that takes longer counts as failed
	// MaxFound is how many ended jobs one look should find at most, as they come with
	// payloads and results. The next look finds the others, and follows at once.
	MaxFound = 100
)

// Found is what a look tells of some jobs. Jobs in neither have not ended.
type Found struct {
	Ended   []*dibs.RawJob
	Missing []int64 // jobs that the database does not have
}

// Group is all waiting of one store. Look, which must be set, asks the database about up to
// dibs.MaxBatch jobs.
type Group struct {
	Look func(ctx context.Context, ids []int64) (Found, error)

	mu      sync.Mutex
	jobs    map[int64]*job     // the jobs for whose ends somebody waits
	stop    context.CancelFunc // ends the goroutine; nil: there is none
	kick    chan struct{}      // receives when a job must be looked at sooner than planned
	closed  bool
	failed  error        // the error of the last look
	waiting atomic.Int64 // len(jobs), so that Ended costs nothing if nobody waits
	looking sync.WaitGroup
}

// job is a job for whose end somebody waits.
type job struct {
	waiters map[*waiter]bool
	since   time.Time // when the newest waiter came
	asked   time.Time // when the last look at it began
	next    time.Time // when to look again
	seen    bool      // a look has found the job, not ended yet
}

// waiter is one call of Wait.
type waiter struct {
	since  time.Time
	answer chan answer // has room for one
}

type answer struct {
	job *dibs.RawJob
	err error
}

// Wait returns the job as soon as it has ended; see admin.Database.
func (g *Group) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	w := &waiter{since: time.Now(), answer: make(chan answer, 1)}
	j, err := g.join(id, w)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-w.answer:
		return a.job, named(id, a.err)
	case <-ctx.Done():
		err := ctx.Err()
		if last := g.leave(id, j, w); last != nil {
			err = fmt.Errorf("%w; the database could not be asked: %w", err, checks.Cause(last))
		}
		return nil, named(id, err)
	}
}

func named(id int64, err error) error { return checks.Failed(fmt.Sprint("wait for job ", id), err) }

func (g *Group) join(id int64, w *waiter) (*job, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, named(id, dibs.ErrClosed)
	}
	if g.jobs == nil {
		g.jobs, g.kick = map[int64]*job{}, make(chan struct{}, 1)
	}
	j := g.jobs[id]
	if j == nil {
		j = &job{waiters: map[*waiter]bool{}}
		g.jobs[id] = j
		g.waiting.Add(1)
	}
	j.waiters[w] = true
	j.since, j.next = w.since, w.since
	g.lookSoon()
	if g.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		g.stop = stop
		g.looking.Go(func() { g.run(ctx) })
	}
	return j, nil
}

func (g *Group) lookSoon() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// leave takes a waiter away. If that was the last one, the goroutine ends, even during a
// look. leave returns the error of the last look.
func (g *Group) leave(id int64, j *job, w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(j.waiters, w)
	if len(j.waiters) == 0 && g.jobs[id] == j {
		g.forget(id)
	}
	return g.failed
}

func (g *Group) forget(id int64) {
	delete(g.jobs, id)
	g.waiting.Add(-1)
	if len(g.jobs) == 0 && g.stop != nil {
		g.stop()
		g.stop = nil
	}
}

// Ended says that jobs may have ended, so that those who wait for them learn of it at once.
// ids is called only if somebody waits.
func (g *Group) Ended(ids func() []int64) {
	if g.waiting.Load() == 0 {
		return
	}
	list := ids()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range list {
		if j := g.jobs[id]; j != nil {
			j.next = time.Time{}
			g.lookSoon()
		}
	}
}

// Close has all who wait return dibs.ErrClosed, and returns when the goroutine has ended.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	for id, j := range g.jobs {
		g.tell(id, j, time.Now(), answer{err: dibs.ErrClosed})
	}
	g.mu.Unlock()
	g.looking.Wait()
}

// run looks at jobs until ctx ends.
func (g *Group) run(ctx context.Context) {
	for {
		now := time.Now()
		ids, next := g.due(now)
		if len(ids) == 0 {
			timer := time.NewTimer(time.Until(next))
			select {
			case <-timer.C:
			case <-g.kick:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
			continue
		}
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		found, err := g.Look(look, ids)
		cancel()
		if !g.answer(ctx, ids, now, found, err) {
			return
		}
	}
}

// due returns the jobs to look at now, or else when the first one will be due. If one job is
// due, all jobs are returned whose pause is half over: so jobs with the same pause soon share
// their looks.
func (g *Group) due(now time.Time) (ids []int64, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next = now.Add(mostPause)
	for _, j := range g.jobs {
		if j.next.Before(next) {
			next = j.next
		}
	}
	if next.After(now) {
		return nil, next
	}
	for id, j := range g.jobs {
		if half := j.next.Sub(j.asked) / 2; !j.next.Add(-half).After(now) && len(ids) < dibs.MaxBatch {
			ids = append(ids, id)
			j.asked, j.next = now, now.Add(min(max(now.Sub(j.since)/pausePart, leastPause), mostPause))
		}
	}
	return ids, next
}

// answer gives the waiters what a look at their jobs has found, and reports whether anybody
// still waits. A waiter that came after the look began gets no answer, since what the look
// found may be older.
func (g *Group) answer(ctx context.Context, ids []int64, began time.Time, found Found, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if g.failed = err; temporary(err) {
		return true
	}
	live := make(map[int64]*job, len(ids))
	for _, id := range ids {
		if j := g.jobs[id]; j != nil {
			live[id] = j
		}
	}
	tell := func(id int64, a answer) {
		if j := live[id]; j != nil {
			g.tell(id, j, began, a)
		}
		delete(live, id)
	}
	for _, e := range found.Ended {
		tell(e.ID, answer{job: e})
	}
	for _, id := range found.Missing {
		if j := live[id]; j != nil {
			tell(id, answer{err: missing(j.seen)})
		}
	}
	for id, j := range live {
		switch {
		case err != nil:
			tell(id, answer{err: err})
		case len(found.Ended)+len(found.Missing) >= MaxFound: // the look stopped at MaxFound, so this job may have ended, too
			j.next = time.Time{}
		default:
			j.seen = true
		}
	}
	return ctx.Err() == nil
}

// tell answers the waiters of a job that came no later than before. If others are left, the job stays.
func (g *Group) tell(id int64, j *job, before time.Time, a answer) {
	for w := range j.waiters {
		if w.since.After(before) {
			continue
		}
		own := a
		if a.job != nil {
			job := *a.job
			own.job = &job
		}
		w.answer <- own
		delete(j.waiters, w)
	}
	if len(j.waiters) == 0 {
		g.forget(id)
	}
}

func missing(seen bool) error {
	if seen {
		return fmt.Errorf("it ended while it was waited for, and was deleted at once: its queue does not keep such jobs, or somebody has pruned it: %w", dibs.ErrNotFound)
	}
	return dibs.ErrNotFound
}

// temporary reports whether a look that failed may succeed later.
func temporary(err error) bool {
	return errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
