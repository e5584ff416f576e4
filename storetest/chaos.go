package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

var chaosCases = []oneCase{
	{"whatever happens, every promise is kept", chaosAll},
}

const chaosEnqueuers, chaosGroupLimit = 2, 2

// chaosAll runs enqueuers, claimers and an operator at random on several stores at once, with
// crashes, sweeps, and effects in callers' transactions. The judge then checks every promise.
func chaosAll(t *test) {
	judge, effects := t.record(), t.effects()
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(chaosGroupLimit), Concurrency: new(0)})
	var enqueuersDone atomic.Int64 // how many enqueuers have finished
	// jobsLeft reports whether there are or will be jobs that have not ended.
	jobsLeft := func(ctx context.Context, db admin.Database) (bool, error) {
		all := enqueuersDone.Load() == chaosEnqueuers
		p, err := db.List(ctx, admin.Filter{Queue: dibs.DefaultQueue, Limit: 1})
		return !all || len(p.Jobs) > 0, err
	}
	t.runOnStores(chaosEnqueuers+7, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		if i < chaosEnqueuers {
			defer enqueuersDone.Add(1)
			return chaosEnqueue(ctx, db, r)
		}
		for more, err := true, error(nil); more; more, err = jobsLeft(ctx, db) {
			if err == nil && i == chaosEnqueuers {
				err = chaosOperate(ctx, db, r)
			} else if err == nil {
				err = t.chaosWork(ctx, db, r, fmt.Sprintf("w%d", i))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	tx, each, total := t.beginTx(), map[int64]int{}, 0
	for _, id := range t.listPaged(admin.Filter{State: dibs.Completed, Limit: 1000}, func() {}) {
		n, err := tx.Count(t.ctx, fmt.Sprint("select count(*) from effect where job = ", id))
		t.must(err)
		each[id], total = n, total+n
	}
	t.must(tx.Rollback())
	equal(t, "effects of completed jobs", total, effects())
	judge(each)
	t.expectCounts()
}

func chaosEnqueue(ctx context.Context, db admin.Database, r *rand.Rand) error {
	for range raceSize(14) {
		var batch []dibs.NewJob
		for range 1 + r.IntN(15) {
			j := dibs.NewJob{Kind: "k", Priority: new(r.IntN(3)), MaxAttempts: 2 + r.IntN(4)}
			if r.IntN(2) == 0 {
				j.Group = fmt.Sprintf("g%d", r.IntN(6))
			}
			if r.IntN(6) == 0 {
				j.Delay = time.Duration(r.IntN(100)) * time.Millisecond
			}
			batch = append(batch, j)
		}
		if _, err := db.Enqueue(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// chaosOperate makes a random call of an operator: a sweep, cancel, edit or read.
func chaosOperate(ctx context.Context, db admin.Database, r *rand.Rand) error {
	if err := sleep(ctx, 3*time.Millisecond); err != nil {
		return err
	}
	p, err := db.List(ctx, admin.Filter{Queue: dibs.DefaultQueue, Limit: 50})
	if err != nil || len(p.Jobs) == 0 {
		return err
	}
	ids := []int64{p.Jobs[r.IntN(len(p.Jobs))].ID}
	switch r.IntN(12) {
	case 0:
		_, _, err = db.Cancel(ctx, ids)
	case 1:
		_, err = db.Edit(ctx, ids, admin.Edit{Priority: new(r.IntN(3))})
	case 2:
		_, err = db.Stats(ctx)
	default:
		_, err = db.Sweep(ctx)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *test) chaosWork(ctx context.Context, db admin.Database, r *rand.Rand, worker string) error {
	jobs, err := db.Claim(ctx, dibs.ClaimRequest{N: 1 + r.IntN(6), Worker: worker, Lease: time.Hour})
	for _, j := range jobs {
		if err == nil {
			err = t.chaosEnd(ctx, db, r, j)
		}
	}
	return err
}

// chaosEnd ends one attempt in a random way.
func (t *test) chaosEnd(ctx context.Context, db admin.Database, r *rand.Rand, j *dibs.RawJob) error {
	l := j.Lease()
	switch r.IntN(10) {
	case 0: // the worker crashes
		return abandon(ctx, db, l)
	case 1: // the worker hangs until another may have the job, and then goes on
		if err := abandon(ctx, db, l); err != nil {
			return err
		}
		if err := sleep(ctx, dibs.MinLease*time.Duration(1+r.IntN(2))); err != nil {
			return err
		}
	case 2, 3:
		err := t.endInTx(ctx, j)
		for t.Conflicts && err != nil && ctx.Err() == nil {
			err = t.endInTx(ctx, j)
		}
		return err
	}
	o := endings(l)[[]int{0, 0, 0, 0, 1, 2, 2, 3, 4, 5, 6}[r.IntN(11)]]
	if o.Delay == nil && o.Ending == dibs.EndRetry || o.Ending == dibs.EndSnooze {
		o.Delay = new(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	err := db.Finish(ctx, []dibs.Outcome{o})
	if errors.Is(err, dibs.ErrLeaseLost) {
		return nil
	}
	return err
}

// abandon shortens a lease so that it ends soon.
func abandon(ctx context.Context, db admin.Database, l dibs.Lease) error {
	for {
		// For a moment, the finish of an earlier holder can look like the finish of this job.
		// Also, another transaction can lock its row for longer than Extend waits.
		e, err := db.Extend(ctx, []dibs.Lease{l}, dibs.MinLease)
		if !errors.Is(err, dibs.ErrUnavailable) && (err != nil || len(e.Finishing) == 0) {
			return err
		}
	}
}

// endInTx completes a job in the caller's own transaction and writes an effect there.
func (t *test) endInTx(ctx context.Context, j *dibs.RawJob) error {
	tx, err := t.begin(ctx)
	if err != nil {
		return err
	}
	id := t.rec.NewTx()
	err = tx.Exec(ctx, effect(j.ID))
	if err == nil {
		err = history.WrapTx(tx, t.rec, id).Finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)})
	}
	switch {
	case err == nil:
		return t.rec.Commit(id, tx.Commit)
	case errors.Is(err, dibs.ErrLeaseLost):
		err = nil
	}
	return errors.Join(err, t.rec.Rollback(id, tx.Rollback))
}
