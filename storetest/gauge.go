package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// gauge counts what runs while limits change all the time. What a worker holds is
// counted after its claim has returned and until just before it lets go, so that
// the count is never above the true one.
//
// Invariant: when a claim that began and ended under one limit gives jobs, then no
// more run than that limit allows. (What ran before a limit was lowered may end;
// nothing is given until then.)
type gauge struct {
	lane func(*dibs.RawJob) string // what is limited: a group, or the queue
	set  func(ctx context.Context, db dibs.Database, lane string, limit int) error

	mu      sync.Mutex
	running map[string]int
	limits  map[string]int
	changes int           // odd while a change is under way
	pace    chan struct{} // somebody has let go of a job
}

// gauged is a store whose claims are watched by a gauge.
type gauged struct {
	dibs.Database
	*gauge
}

func (g gauged) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	g.mu.Lock()
	before := g.changes
	g.mu.Unlock()
	jobs, err := g.Database.Claim(ctx, r)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, j := range jobs {
		g.running[g.lane(j)]++
	}
	if before != g.changes || before%2 == 1 {
		return jobs, err
	}
	for _, j := range jobs {
		if now, most := g.running[g.lane(j)], g.limits[g.lane(j)]; most > 0 && now > most {
			return nil, fmt.Errorf("%d jobs of %q run, the limit is %d", now, g.lane(j), most)
		}
	}
	return jobs, err
}

func (g gauged) letGo(ctx context.Context, r *rand.Rand, j *dibs.RawJob) error {
	g.mu.Lock()
	g.running[g.lane(j)]--
	g.mu.Unlock()
	select {
	case g.pace <- struct{}{}:
	default:
	}
	return letGo(ctx, g.Database, r, j)
}

func (g gauged) change(ctx context.Context, lane string, limit int) error {
	g.mu.Lock()
	g.changes++
	g.mu.Unlock()
	err := g.set(ctx, g.Database, lane, limit)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes++
	g.limits[lane] = limit
	return err
}

// letGo mostly completes a job, and sometimes fails, gives it back or crashes.
func letGo(ctx context.Context, db dibs.Database, r *rand.Rand, j *dibs.RawJob) error {
	l := j.Lease()
	if j.Attempt > 10 {
		return db.Finish(ctx, []dibs.Outcome{l.Complete(nil)})
	}
	switch r.IntN(20) {
	case 0:
		return db.Finish(ctx, []dibs.Outcome{l.RetryAfter(time.Duration(r.IntN(20))*time.Millisecond, "e")})
	case 1:
		return db.Finish(ctx, []dibs.Outcome{l.Snooze(time.Duration(r.IntN(20)) * time.Millisecond)})
	case 2:
		return db.Finish(ctx, []dibs.Outcome{l.Release()})
	case 3:
		_, err := db.Extend(ctx, []dibs.Lease{l}, dibs.MinLease)
		return err
	}
	return db.Finish(ctx, []dibs.Outcome{l.Complete(nil)})
}

// drainGauged completes all jobs with many claimers while the limits change.
func (t *test) drainGauged(g *gauge, limits []int) {
	t.Helper()
	g.running, g.pace = map[string]int{}, make(chan struct{}, 1)
	lanes := slices.Collect(maps.Keys(g.limits))
	drained := make(chan struct{})
	var once sync.Once
	t.crew(7, func(ctx context.Context, db dibs.Database, r *rand.Rand, i int) error {
		watched := gauged{db, g}
		if i > 0 {
			defer once.Do(func() { close(drained) })
			return drain(ctx, watched, r, i, func(jobs []*dibs.RawJob) (err error) {
				for _, j := range jobs { // one by one, so that groups are partly free
					err = errors.Join(err, watched.letGo(ctx, r, j))
				}
				return err
			})
		}
		for {
			for range 8 {
				select {
				case <-g.pace:
				case <-drained:
					return nil
				}
			}
			if err := watched.change(ctx, lanes[r.IntN(len(lanes))], limits[r.IntN(len(limits))]); err != nil {
				return err
			}
		}
	})
}

func raceGroupLimit(t *test) {
	g := &gauge{
		lane: func(j *dibs.RawJob) string { return j.Group },
		set: func(ctx context.Context, db dibs.Database, group string, limit int) error {
			return db.SetGroup(ctx, dibs.DefaultQueue, group, limit)
		},
		limits: map[string]int{"g0": 1, "g1": 1, "g2": 1, "g3": 1},
	}
	var batch []dibs.NewJob
	for range raceSize(60) {
		for group := range g.limits {
			batch = append(batch, grouped(group))
		}
	}
	t.enqueue(batch...)
	t.drainGauged(g, []int{1, 2, 3, 5})
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(len(batch)))
}

func raceConcurrency(t *test) {
	n := raceSize(300)
	t.limited(3, n)
	g := &gauge{
		lane: func(*dibs.RawJob) string { return "" },
		set: func(ctx context.Context, db dibs.Database, _ string, limit int) error {
			_, err := db.SetQueue(ctx, dibs.DefaultQueue, dibs.QueueChange{Concurrency: &limit})
			return err
		},
		limits: map[string]int{"": 3},
	}
	t.drainGauged(g, []int{5, 1, 0, 4, 2})
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(n))
}
