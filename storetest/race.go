package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Many claimers work at once, on several stores that have separate connections.
var raceCases = []oneCase{
	{"every job is claimed exactly once and none is left", raceOnce},
	{"enqueuers and claimers at once lose and double nothing", raceEnqueue},
	{"groups run one at a time and in order, through crashes", raceGroupOrder},
	{"groups never run more than their limit, whichever it is just now", raceGroupLimit},
	{"the queue never runs more than its limit, whichever it is just now", raceConcurrency},
	{"abandoned jobs are taken over once", raceExpired},
}

// runOnStores runs n goroutines on several stores, each with its own random numbers, until
// all have returned or one has failed.
func (t *test) runOnStores(n int, f func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error) {
	t.Helper()
	t.goroutines()
	stores := []admin.Database{t.db, t.Another(t), t.Another(t)}
	r := t.random()
	g, ctx := errgroup.WithContext(t.ctx)
	for i := range n {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		g.Go(func() error { return f(ctx, stores[i%len(stores)], own, i) })
	}
	t.must(g.Wait())
}

// drain claims jobs and calls handle with them until all jobs of the queue are final.
func drain(ctx context.Context, db admin.Database, r *rand.Rand, worker int, handle func([]*dibs.RawJob) error) error {
	idle := time.NewTicker(10 * time.Millisecond)
	defer idle.Stop()
	for {
		jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(10), Worker: fmt.Sprintf("w%d", worker), Lease: time.Hour})
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			if err := handle(jobs); err != nil {
				return err
			}
			continue
		}
		live, err := db.List(ctx, admin.Filter{Queue: dibs.DefaultQueue, Limit: 1})
		if err != nil || len(live.Jobs) == 0 {
			return err
		}
		if _, err := db.Sweep(ctx); err != nil {
			return err
		}
		select {
		case <-idle.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// complete returns a function that completes jobs.
func complete(ctx context.Context, db admin.Database) func([]*dibs.RawJob) error {
	return func(jobs []*dibs.RawJob) error { return db.Finish(ctx, outcomes(jobs, completed)) }
}

func raceSize(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// Requirement 1: no work goes to two threads.
func raceOnce(t *test) {
	judge := t.record()
	t.enqueue(copies(raceSize(500), dibs.NewJob{Kind: "k"})...)
	t.runOnStores(9, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		return drain(ctx, db, r, i, complete(ctx, db))
	})
	judge(nil)
}

func raceEnqueue(t *test) {
	judge := t.record()
	const enqueuers, batches = 3, 25
	var enqueuersDone atomic.Int64
	t.runOnStores(enqueuers+6, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		for i >= enqueuers {
			last := enqueuersDone.Load() == enqueuers
			if err := drain(ctx, db, r, i, complete(ctx, db)); err != nil || last {
				return err
			}
		}
		defer enqueuersDone.Add(1)
		for range batches {
			var batch []dibs.NewJob
			for range 1 + r.IntN(20) {
				batch = append(batch, dibs.NewJob{Kind: "k", Priority: new(r.IntN(5))})
			}
			if _, err := db.Enqueue(ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
	judge(nil)
}

// raceGroupOrder has a group limit of 1.
func raceGroupOrder(t *test) {
	judge := t.record()
	const groups = 12
	for range raceSize(24) {
		var batch []dibs.NewJob
		for g := range groups {
			batch = append(batch, grouped(fmt.Sprintf("g%d", g)))
		}
		t.enqueue(batch...)
	}
	t.runOnStores(8, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		return drain(ctx, db, r, i, func(jobs []*dibs.RawJob) error {
			crashed := slices.DeleteFunc(slices.Clone(jobs), func(*dibs.RawJob) bool { return r.IntN(20) > 0 })
			rest := slices.DeleteFunc(jobs, func(j *dibs.RawJob) bool { return slices.Contains(crashed, j) })
			_, err := db.Extend(ctx, leases(crashed), dibs.MinLease)
			for errors.Is(err, dibs.ErrUnavailable) && ctx.Err() == nil { // on a slow machine claims lock rows for long
				_, err = db.Extend(ctx, leases(crashed), dibs.MinLease)
			}
			return errors.Join(err, db.Finish(ctx, outcomes(rest, completed)))
		})
	})
	judge(nil)
}

// Many claimers find the same abandoned jobs. Each job must go to one of them.
func raceExpired(t *test) {
	judge := t.record()
	n := raceSize(300)
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	t.extendAll(dibs.MinLease, leases(t.claim(dibs.ClaimRequest{N: n, Worker: "crashed"}))...)
	t.runOnStores(8, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		return drain(ctx, db, r, i, complete(ctx, db))
	})
	judge(nil)
}

func raceGroupLimit(t *test) {
	judge := t.record()
	groups := []string{"g0", "g1", "g2", "g3"}
	for range raceSize(60) {
		for _, g := range groups {
			t.enqueue(grouped(g))
		}
	}
	t.drainWhile(func(ctx context.Context, db admin.Database, r *rand.Rand) error {
		return db.ChangeGroup(ctx, dibs.DefaultQueue, groups[r.IntN(len(groups))], dibs.GroupChange{Limit: new([]int{1, 2, 3, 5}[r.IntN(4)])}.Apply)
	})
	judge(nil)
}

func raceConcurrency(t *test) {
	judge := t.record()
	t.limited(3, raceSize(300))
	t.drainWhile(func(ctx context.Context, db admin.Database, r *rand.Rand) error {
		_, err := db.ChangeQueue(ctx, dibs.DefaultQueue, dibs.QueueChange{Concurrency: new([]int{5, 1, 0, 4, 2}[r.IntN(5)])}.Apply)
		return err
	})
	judge(nil)
}

// drainWhile ends all jobs with many claimers. Meanwhile it calls change after every eight
// jobs.
func (t *test) drainWhile(change func(context.Context, admin.Database, *rand.Rand) error) {
	t.Helper()
	pace, drained := make(chan struct{}, 1), make(chan struct{})
	var once sync.Once
	t.runOnStores(7, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		if i > 0 {
			defer once.Do(func() { close(drained) })
			return drain(ctx, db, r, i, func(jobs []*dibs.RawJob) (err error) {
				for _, j := range jobs { // finish them one by one, so that groups become partly free
					err = errors.Join(err, endAttempt(ctx, db, r, j))
					select {
					case pace <- struct{}{}:
					default:
					}
				}
				return err
			})
		}
		for {
			for range 8 {
				select {
				case <-pace:
				case <-drained:
					return nil
				}
			}
			if err := change(ctx, db, r); err != nil {
				return err
			}
		}
	})
}

// endAttempt most often completes a job. Sometimes it fails the job, gives it back or abandons it.
func endAttempt(ctx context.Context, db admin.Database, r *rand.Rand, j *dibs.RawJob) error {
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
		for errors.Is(err, dibs.ErrUnavailable) && ctx.Err() == nil { // on a slow machine claims lock rows for long
			_, err = db.Extend(ctx, []dibs.Lease{l}, dibs.MinLease)
		}
		return err
	}
	return db.Finish(ctx, []dibs.Outcome{l.Complete(nil)})
}
