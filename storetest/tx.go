package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Enqueue and Finish inside the caller's own transaction. Requirement 5: queue and
// state in one database; enqueue, claim and finish inside the caller's own transaction.
var txCases = []oneCase{
	{"what is enqueued is there if and only if the transaction commits", txEnqueue},
	{"bad input does nothing and leaves the transaction usable", txBadInput},
	{"a finish and its effects happen together or not at all", txFinish},
	{"of a stale and a fresh holder only the fresh one has effects", txStale},
	{"effects happen exactly once although two run the job at once", txEffectsOnce},
	{"a finish that took effect before the lease ended holds", txFinishOutlivesLease},
	{"a lease that ends while the transaction is open is lost", txLeaseEnds},
	{"a refused finish lists its jobs", txRefused},
	{"a finish frees the place in group and queue with the commit", txFreesPlace},
	{"jobs of a lost connection are not there", txEnqueueLost},
	{"a job that commits late is claimed soon", txLateCommit},
	{"a unique key of a transaction that rolled back is free", txUniqueKey},
	{"InTx commits on nil and rolls back on an error", inTx},
	{"a transaction that has ended gives an error", txEnded},
	{"settings of a group that a transaction sets hold from its commit on, or never", txSetGroup},
	{"what a statement that is cut off leaves of a transaction happens as a whole or not at all", txCutOff},
	{"a place that a savepoint gave back is not lost", txPlaceGivenBack},
}

func txEnqueue(t *test) {
	other := t.Another(t)
	tx := t.beginTx()
	lost := t.enqueueOn(tx, copies(3, dibs.NewJob{Kind: "k", Group: "g"})...)
	_, err := other.Get(t.ctx, lost[0])
	if !errors.Is(err, dibs.ErrNotFound) {
		t.Fatalf("before the commit Get gave error %v, want ErrNotFound", err)
	}
	t.must(tx.Rollback())
	t.expectGone(lost[0])
	sameIDs(t, "claimed after the rollback", ids(t.claim(dibs.ClaimRequest{N: 5})), nil)

	tx = t.beginTx()
	kept := t.enqueueOn(tx, copies(3, dibs.NewJob{Kind: "k", Payload: "p"})...)
	t.must(tx.Commit())
	jobs := t.claimOn(other, dibs.ClaimRequest{N: 5})
	sameIDs(t, "claimed after the commit", ids(jobs), kept)
	equal(t, "payload", string(jobs[0].Payload), `"p"`)
	equal(t, "enqueued", t.stats(dibs.DefaultQueue).Enqueued, int64(3))
}

func txBadInput(t *test) {
	tx := t.beginTx()
	batch := copies(3, dibs.NewJob{Kind: "k"})
	batch[1].Priority = new(-1)
	_, err := tx.Enqueue(t.ctx, batch)
	invalid(t, err, "jobs[1].priority")
	_, err = tx.Claim(t.ctx, dibs.ClaimRequest{Worker: "w"})
	invalid(t, err, "n")
	invalid(t, tx.Finish(t.ctx, []dibs.Outcome{{}}), "outcomes[0].id")
	good := t.enqueueOn(tx, dibs.NewJob{Kind: "k"})
	t.must(tx.Commit())
	sameIDs(t, "jobs", ids(t.list(admin.Filter{})), good)
}

func txFinish(t *test) {
	count := t.effects()
	j := t.runningJob()
	tx := t.beginTx()
	t.must(tx.Exec(t.ctx, effect(j.ID)))
	t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete([]byte("1"))}))
	t.must(tx.Rollback())
	equal(t, "effects after the rollback", count(), 0)
	sameJob(t, t.get(j.ID), j)

	tx = t.beginTx()
	t.must(tx.Exec(t.ctx, effect(j.ID)))
	t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete([]byte("1"))}))
	next := t.enqueueOn(tx, dibs.NewJob{Kind: "next"})
	t.must(tx.Commit())
	equal(t, "effects after the commit", count(), 1)
	t.inState(dibs.Completed, j.ID)
	t.inState(dibs.Waiting, next...)
	t.allRefused(j.Lease())
}

// Requirement 5: a stale worker gets an error and changes nothing.
func txStale(t *test) {
	count := t.effects()
	t.enqueue(dibs.NewJob{Kind: "k"})
	stale := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	fresh := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	for _, j := range []*dibs.RawJob{stale, fresh, stale, fresh} {
		tx := t.beginTx()
		t.must(tx.Exec(t.ctx, effect(j.ID)))
		err := tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)})
		if err == nil {
			t.must(tx.Commit())
			continue
		}
		t.expectLost(err, j.ID)
		t.must(tx.Rollback())
	}
	equal(t, "effects", count(), 1)
	t.inState(dibs.Completed, fresh.ID)
}

// Several workers that have held each job finish it at once in transactions with effects. Only
// the last holder's lease is valid, so there must be one effect for each job.
func txEffectsOnce(t *test) {
	count := t.effects()
	const n, holders = 5, 3
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	var held []dibs.Lease
	for range holders - 1 {
		jobs := t.claimSoon(dibs.ClaimRequest{}, n)
		held = append(held, leases(jobs)...)
		t.expire(jobs...)
	}
	held = append(held, leases(t.claimSoon(dibs.ClaimRequest{}, n))...)
	t.runAtOnce(len(held), func(i int) error {
		tx, err := t.begin(t.ctx)
		if err != nil {
			return err
		}
		err = tx.Exec(t.ctx, effect(held[i].ID))
		if err == nil {
			err = tx.Finish(t.ctx, []dibs.Outcome{held[i].Complete(nil)})
		}
		if err == nil {
			return tx.Commit()
		}
		if errors.Is(err, dibs.ErrLeaseLost) {
			return tx.Rollback()
		}
		return errors.Join(err, tx.Rollback())
	})
	equal(t, "effects", count(), n)
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(n))
}

// The lease must be valid when Finish is called. Until the commit, nobody else gets the job or
// its place in the group, even after the lease.
func txFinishOutlivesLease(t *test) {
	count := t.effects()
	all := t.enqueue(copies(2, grouped("g"))...)
	j := t.claimOne(dibs.ClaimRequest{Lease: 5 * time.Second})
	tx := t.beginTx()
	t.must(tx.Exec(t.ctx, effect(j.ID)))
	t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
	if t.OpenTx {
		t.waitForExpiry(j)
		_, err := t.db.Sweep(t.ctx)
		t.must(err)
		t.enqueue(grouped("g")) // makes the next claim admit jobs of the group
		t.claimExactly("while the transaction is open")
	}
	t.must(tx.Commit())
	t.inState(dibs.Completed, j.ID)
	equal(t, "effects", count(), 1)
	t.sweep()
	t.claimExactly("the next of the group", all[1])
}

// Finish compares the lease with the time of the call, not with the start of the transaction.
func txLeaseEnds(t *test) {
	var jobs []*dibs.RawJob
	var kept []int64
	var tx Tx
	for lease := 2 * time.Second; ; lease *= 2 { // a slow machine begins the transaction when the lease has ended
		t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
		jobs = t.claim(dibs.ClaimRequest{N: 2, Lease: lease})
		ended, _ := t.setAlarm(jobs[1].LeaseUntil)
		tx = t.beginTx()
		kept = t.enqueueOn(tx, dibs.NewJob{Kind: "k"}) // the database has fixed the transaction's time
		inTime := t.stats(clock).Scheduled > 0
		ended()
		if inTime {
			break
		}
		t.must(tx.Rollback())
	}
	t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}), jobs[0].ID)
	t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{jobs[1].Lease().Retry("e")}), jobs[1].ID)
	t.must(tx.Commit())
	for _, j := range jobs {
		sameJob(t, t.get(j.ID), j)
	}
	t.inState(dibs.Waiting, kept...)
}

func txRefused(t *test) {
	t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 4})
	t.finish(jobs[1].Lease().Release(), jobs[3].Lease().Die("e"))
	tx := t.beginTx()
	t.expectLost(tx.Finish(t.ctx, outcomes(jobs, completed)), jobs[1].ID, jobs[3].ID)
	t.must(tx.Rollback())
	t.inState(dibs.Running, jobs[0].ID, jobs[2].ID)
	t.finish(jobs[0].Lease().Complete(nil), jobs[2].Lease().Complete(nil))
}

func txFreesPlace(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(2)})
	all := t.enqueue(append(copies(3, grouped("g")), copies(2, dibs.NewJob{Kind: "k"})...)...)
	jobs := t.claimExactly("the first of the group and a free one", all[0], all[3])
	for _, end := range []func(Tx) error{func(tx Tx) error { return tx.Rollback() }, func(tx Tx) error { return tx.Commit() }} {
		t.claimExactly("before")
		tx := t.beginTx()
		t.must(tx.Finish(t.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
		if t.OpenTx {
			t.claimExactly("while the transaction is open")
		}
		t.must(end(tx))
	}
	t.claimExactly("after the commit", all[1])
}

func txEnqueueLost(t *test) {
	tx := t.beginTx()
	id := t.enqueueOn(tx, dibs.NewJob{Kind: "k"})[0]
	t.must(tx.Break())
	t.expectGone(id)
	after := t.enqueue(dibs.NewJob{Kind: "k"})
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 5})), after)
}

// A store may remember how far it has claimed. It must still claim a job that becomes visible
// before that place.
func txLateCommit(t *test) {
	if !t.OpenTx {
		t.Skip("one writer at a time: nothing else is enqueued while a transaction is open")
	}
	t.enqueue(copies(5, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	late := t.enqueueOn(tx, dibs.NewJob{Kind: "late"}, dibs.NewJob{Kind: "late", Priority: new(5)}, dibs.NewJob{Kind: "late", Group: "g"})
	for range 4 {
		t.enqueue(copies(25, dibs.NewJob{Kind: "k"})...)
	}
	equal(t, "claimed jobs", len(t.claim(dibs.ClaimRequest{N: 90})), 90)
	t.must(tx.Commit())
	waiting := map[int64]bool{}
	for _, id := range late {
		waiting[id] = true
	}
	committed := time.Now()
	t.waitUntil("the late jobs are claimed", func() bool {
		for _, j := range t.claim(dibs.ClaimRequest{N: 5}) {
			delete(waiting, j.ID)
		}
		t.enqueue(copies(5, dibs.NewJob{Kind: "k"})...)
		return len(waiting) == 0
	})
	if took := time.Since(committed); took > 5*time.Second {
		t.Fatalf("the late jobs were claimed %v after their commit", took)
	}
}

func txUniqueKey(t *test) {
	job := dibs.NewJob{Kind: "k", UniqueKey: "u"}
	tx := t.beginTx()
	t.enqueueOn(tx, job)
	enqueuedAgain, err := tx.Enqueue(t.ctx, []dibs.NewJob{job})
	t.must(err)
	equal(t, "existing", enqueuedAgain[0].Existing, true)
	t.must(tx.Rollback())
	tx = t.beginTx()
	kept := t.enqueueOn(tx, job)
	t.must(tx.Commit())
	got, err := t.db.Enqueue(t.ctx, []dibs.NewJob{job})
	t.must(err)
	equal(t, "enqueued again", got, []dibs.Enqueued{{ID: kept[0], Existing: true}})
}

func inTx(t *test) {
	var id int64
	enqueue := func(end error) func(dibs.Tx) error {
		return func(tx dibs.Tx) error {
			id = t.enqueueOn(tx, dibs.NewJob{Kind: "k"})[0]
			return end
		}
	}
	t.must(t.db.InTx(t.ctx, enqueue(nil)))
	t.inState(dibs.Waiting, id)
	callerError := errors.New("mine")
	if err := t.db.InTx(t.ctx, enqueue(fmt.Errorf("handler: %w", callerError))); !errors.Is(err, callerError) {
		t.Fatalf("InTx gave error %v, want the one that the function returned", err)
	}
	t.expectGone(id)
	panicked := func() (p any) {
		defer func() { p = recover() }()
		_ = t.db.InTx(t.ctx, func(tx dibs.Tx) error {
			id = t.enqueueOn(tx, dibs.NewJob{Kind: "k"})[0]
			panic("mine")
		})
		return nil
	}()
	equal(t, "panic", panicked, any("mine"))
	t.expectGone(id)
	t.enqueue(dibs.NewJob{Kind: "k"}) // no transaction holds a lock now
}

func txEnded(t *test) {
	tx := t.beginTx()
	t.must(tx.Commit())
	if _, err := tx.Enqueue(context.WithoutCancel(t.ctx), []dibs.NewJob{{Kind: "k"}}); err == nil {
		t.Fatal("enqueued in a transaction that had ended")
	}
	sameIDs(t, "jobs", ids(t.list(admin.Filter{})), nil)
}

func txSetGroup(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(5)})
	change := dibs.GroupChange{Limit: new(3), Rate: slow(2)}
	all := t.enqueue(copies(5, grouped("g"))...)
	tx := t.beginTx()
	invalid(t, tx.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", dibs.GroupChange{Limit: new(-1)}.Apply), "limit")
	t.must(tx.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", change.Apply))
	t.must(tx.Rollback())
	t.complete(t.claimExactly("by the queue's settings, after a rollback", all...)...)

	all = t.enqueue(copies(5, grouped("g"))...)
	other := t.enqueue(grouped("other"))
	tx = t.beginTx()
	t.must(tx.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", change.Apply))
	t.must(tx.ChangeGroup(t.ctx, "new", "g", dibs.GroupChange{Limit: new(2)}.Apply))
	fresh := t.enqueueOn(tx, grouped("fresh"))
	t.must(tx.Commit())
	tx.Wake()
	t.complete(t.claimExactly("by the group's own", append(append(all[:2:2], other...), fresh...)...)...)
	t.claimExactly("none beyond its rate")
	for queue, want := range map[string]dibs.Group{dibs.DefaultQueue: {Name: "g", Limit: 3, Rate: *slow(2)}, "new": {Name: "g", Limit: 2}} {
		list, err := t.db.Groups(t.ctx, queue)
		t.must(err)
		for i := range list {
			list[i].HeldUntil = time.Time{}
		}
		equal(t, "groups of "+queue, list, []dibs.Group{want})
	}
	t.must(t.db.InTx(t.ctx, func(tx dibs.Tx) error {
		return tx.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", dibs.GroupChange{Rate: &dibs.Rate{}}.Apply)
	}))
	t.claimExactly("without a rate", all[2:]...)
}

// If a statement is cancelled, some databases roll the whole transaction back.
func txCutOff(t *test) {
	count := t.effects()
	committed := 0
	for wait := time.Millisecond; wait < 100*time.Millisecond; wait *= 4 {
		j := t.runningJob()
		tx := t.beginTx()
		t.must(tx.Exec(t.ctx, effect(j.ID)))
		before := t.enqueueOn(tx, dibs.NewJob{Kind: "before", Delay: time.Hour})[0]
		ctx, stop := context.WithTimeout(t.ctx, wait)
		err := tx.Exec(ctx, "insert into effect (job) with recursive n(i) as (select 1 union all select i + 1 from n) select i from n")
		stop()
		if err == nil {
			t.Fatal("a statement that never ends has ended")
		}
		finishErr := tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)})
		if err := tx.Commit(); err != nil {
			t.expectGone(before)
			sameJob(t, t.get(j.ID), j)
			t.finish(j.Lease().Complete(nil))
		} else {
			committed++
			t.must(finishErr)
			t.inState(dibs.Waiting, before)
			t.inState(dibs.Completed, j.ID)
		}
		equal(t, "effects", count(), committed)
	}
}

// A store must not keep outside of the database which places of groups are held.
func txPlaceGivenBack(t *test) {
	all := t.enqueue(copies(2, grouped("g"))...)
	tx := t.beginTx()
	t.must(tx.Exec(t.ctx, "savepoint earlier"))
	sameIDs(t, "claimed", ids(t.claimOn(tx, dibs.ClaimRequest{N: 5})), all[:1])
	t.must(tx.Exec(t.ctx, "rollback to savepoint earlier"))
	t.enqueueOn(tx, grouped("g"))
	t.must(tx.Commit())
	t.claimExactly("after the commit", all[0])
}
