package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

func flowRequeue(t *test) {
	all := t.enqueue(
		after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.Ref("c"), dibs.After("b")), after(dibs.AfterFailure("a")),
		after(dibs.Ref("other")), after(dibs.After("other")),
	)
	jobs := t.claimExactly("the first ones", all[0], all[4])
	t.finish(jobs[0].Lease().Die("e"), jobs[1].Lease().Die("e"))
	t.cancelledBy(all[0], all[1], all[2])
	t.cancelledBy(all[4], all[5])
	t.complete(t.startsSoon("the compensation", all[3])...)
	sameIDs(t, "requeued", t.requeue(all[0]), all[:1])
	t.becomes(dibs.Blocked, all[1], all[2])
	equal(t, "cause", t.get(all[1]).Cause, int64(0))
	t.inState(dibs.Completed, all[3])
	t.inState(dibs.Cancelled, all[5])
	for _, id := range all[:3] {
		t.complete(t.startsSoon("the chain", id)...)
	}
	t.inState(dibs.Completed, all[:3]...)
}

func flowRequeueTwo(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b")), after(dibs.Ref("c"), dibs.After("a", "b")), after(dibs.After("c")))
	jobs := t.claimExactly("the first ones", all[:2]...)
	t.finish(jobs[0].Lease().Die("e"))
	t.cancelledBy(all[0], all[2:]...)
	t.finish(jobs[1].Lease().Die("e"))
	t.requeue(all[0])
	t.cancelledBy(all[1], all[2:]...)
	t.complete(t.claimExactly("the requeued one", all[0])...)
	t.requeue(all[1])
	t.becomes(dibs.Blocked, all[2:]...)
	t.complete(t.claimExactly("the other", all[1])...)
	t.complete(t.startsSoon("the follower", all[2])...)
	t.startsSoon("its own", all[3])
}

func flowRequeueWaiting(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("a")), after(dibs.After("a")))
	jobs := t.claimExactly("the first ones", all[:2]...)
	t.complete(jobs[0])
	t.waitUntil("one is left", func() bool { return t.get(all[2]).WaitsFor == 1 })
	t.requeue(all[0])
	t.complete(jobs[1])
	again := t.claimExactly("the requeued one", all[0])
	t.sweep()
	t.inState(dibs.Blocked, all[2])
	t.complete(again...)
	t.startsSoon("the follower", all[2])
	// What has started stays as it is.
	t.requeue(all[0])
	t.inState(dibs.Running, all[2])
}

func flowRequeueFollower(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.AfterEnd("b")))
	t.cancel(all[1])
	t.becomes(dibs.Waiting, all[2])
	t.requeue(all[1])
	t.becomes(dibs.Blocked, all[1])
	first := t.claimExactly("the first and what has been released", all[0], all[2])[0]
	t.finish(first.Lease().Die("e"))
	t.cancelledBy(all[0], all[1])
	t.requeue(all[1]) // the other is still dead
	t.cancelledBy(all[0], all[1])
	t.requeue(all[0])
	t.complete(t.claimExactly("the first again", all[0])...)
	t.startsSoon("the follower", all[1])
	// It also comes after what the other has added meanwhile.
	more := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a")))
	t.cancel(more[1])
	o := t.claimExactly("the first", more[0])[0].Lease().Complete(nil)
	o.Add = []dibs.NewJob{{Kind: "k"}}
	t.finish(o)
	t.requeue(more[1])
	t.becomes(dibs.Blocked, more[1])
	t.complete(t.claim(dibs.ClaimRequest{N: 10})...)
	t.startsSoon("the follower", more[1])
}

func flowRequeueLate(t *test) {
	first := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	job := after(dibs.After(first))
	job.Delay = time.Hour
	late := t.enqueue(job)[0]
	at := t.get(late).RunAt
	for range 2 {
		t.finish(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease().Die("e")) // a claim passes over it while it is noted that one comes after it
		t.cancelledBy(first, late)
		t.requeue(first)
		t.becomes(dibs.Blocked, late)
		equal(t, "run at", t.get(late).RunAt, at)
	}
	t.complete(t.claimExactly("the first", first)...)
	t.becomes(dibs.Waiting, late)
	t.waitUntilTime(at)
	t.claimExactly("the follower, at its time", late)
	// One that was let go stays so, though the call names it beside the other.
	job.After, job.Ref = []dibs.Dep{{Ref: "a", On: dibs.NeedEnded}}, ""
	all := t.enqueue(after(dibs.Ref("a")), job)
	t.complete(t.claimSoon(dibs.ClaimRequest{}, 1)...)
	t.becomes(dibs.Waiting, all[1])
	sameIDs(t, "requeued", t.requeue(all...), all[:1])
	t.inState(dibs.Waiting, all...)
	// One that still waits for another waits again for a job that comes back with its cause, too.
	all = t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.Ref("c")), after(dibs.AfterFailure("b"), dibs.After("c")))
	t.cancel(all[0])
	t.cancelledBy(all[0], all[1])
	t.waitUntil("it waits for one", func() bool { return t.get(all[3]).WaitsFor == 1 })
	t.requeue(all[0])
	equal(t, "it waits for two again", t.get(all[3]).WaitsFor, 2)
}

func flowRequeueGap(t *test) {
	first := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	between := t.enqueue(after(dibs.After(first)))[0]
	last := t.enqueue(after(dibs.After(between)))[0]
	t.finish(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease().Die("e")) // as in flowRequeueLate
	t.cancelledBy(first, between, last)
	deleted, err := t.db.DeleteEnded(t.ctx, []int64{between}, time.Time{})
	t.must(err)
	sameIDs(t, "deleted", deleted, []int64{between})
	t.requeue(first)
	t.becomes(dibs.Waiting, last)
}

func flowRetention(t *test) {
	for _, keep := range []time.Duration{0, time.Minute} {
		t.set(dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: &keep, KeepDead: &keep, KeepCancelled: &keep})
		all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.AfterEnd("b")))
		t.complete(t.claimExactly("the first", all[0])...)
		second := t.startsSoon("the second", all[1])
		t.waitUntilTime(t.get(all[0]).FinishedAt.Add(2 * keep))
		t.sweep()
		t.inState(dibs.Completed, all[0])
		t.finish(second[0].Lease().Die("e"))
		third := t.startsSoon("the third", all[2])
		t.sweep()
		t.inState(dibs.Dead, all[1])
		t.complete(third...)
		if keep > 0 {
			t.waitUntilTime(t.get(all[2]).FinishedAt.Add(2 * keep))
		}
		t.waitUntil("all are deleted", func() bool {
			t.sweep()
			p, err := t.db.List(t.ctx, admin.Filter{State: dibs.Completed})
			t.must(err)
			q, err := t.db.List(t.ctx, admin.Filter{State: dibs.Dead})
			t.must(err)
			return len(p.Jobs)+len(q.Jobs) == 0
		})
	}
}

func flowDelete(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a")), dibs.NewJob{Kind: "k"})
	t.complete(t.claimExactly("the first and another", all[0], all[2])...)
	follower := t.startsSoon("the follower", all[1])
	deleted, err := t.db.DeleteEnded(t.ctx, []int64{all[0], all[2]}, time.Time{})
	t.must(err)
	sameIDs(t, "deleted", deleted, all[2:])
	equal(t, "pruned", t.prune(dibs.DefaultQueue, "", 0), 0)
	t.inState(dibs.Completed, all[0])
	t.complete(follower...)
	t.waitUntil("the first can be deleted", func() bool {
		t.sweep()
		deleted, err := t.db.DeleteEnded(t.ctx, all[:1], time.Time{})
		t.must(err)
		return len(deleted) == 1
	})
	// The follower itself can go at any time.
	deleted, err = t.db.DeleteEnded(t.ctx, all[1:2], time.Time{})
	t.must(err)
	sameIDs(t, "deleted", deleted, all[1:2])
	// A job that has just got a follower stays too.
	for range 20 {
		parent := t.enqueue(dibs.NewJob{Kind: "k"})[0]
		t.complete(t.claimExactly("the parent", parent)...)
		late := t.enqueue(after(dibs.After(parent)))[0]
		deleted, err := t.db.DeleteEnded(t.ctx, []int64{parent}, time.Time{})
		t.must(err)
		sameIDs(t, "deleted", deleted, nil)
		t.complete(t.startsSoon("the late follower", late)...)
	}
}

func flowRepair(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.After("b")), after(dibs.Ref("c")), after(dibs.After("c")))
	t.runSQL(fmt.Sprintf("delete from %%sjob where id = %d", all[0]))
	found := t.check()
	if want := fmt.Sprintf("job %d: waits for job %d, which is gone", all[1], all[0]); !slices.Contains(found, want) {
		t.Fatalf("the check found %q, want %q among them", found, want)
	}
	t.repair(t.db)
	t.cancelledBy(all[0], all[1:3]...)
	t.inState(dibs.Blocked, all[4])
	t.complete(t.claimExactly("the other", all[3])...)
	t.startsSoon("its follower", all[4])
}

func flowReads(t *test) {
	all := t.enqueue(append(copies(3, after(dibs.Ref("a"))), after(dibs.After("a")), dibs.NewJob{Kind: "k"})...)
	plain := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	for _, id := range all {
		equal(t, "flow", t.get(id).Flow, all[0])
	}
	equal(t, "flow of a plain job", t.get(plain).Flow, int64(0))
	equal(t, "waits for", t.get(all[3]).WaitsFor, 3)
	blocked := t.list(admin.Filter{State: dibs.Blocked})
	sameIDs(t, "blocked", ids(blocked), all[3:4])
	equal(t, "waits for, as listed", blocked[0].WaitsFor, 3)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, blocked", []int64{s.Waiting, s.Blocked}, []int64{5, 1})
	j := t.claimOne(dibs.ClaimRequest{})
	equal(t, "flow of a claimed job", j.Flow, all[0])
	t.complete(j)
	t.waitUntil("the end is noticed", func() bool { return t.get(all[3]).WaitsFor == 2 })
	ended := t.list(admin.Filter{State: dibs.Completed})
	equal(t, "flow of an ended job", ended[0].Flow, all[0])
	t.cancel(all[1])
	t.cancelledBy(all[1], all[3])
	equal(t, "waits for after its end", t.get(all[3]).WaitsFor, 0)
}

// Flows in a caller's transaction.
var txFlowCases = []oneCase{
	{"flows of a transaction exist once it is committed", flowTxEnqueue},
	{"ends in a transaction release followers once it is committed", flowTxFinish},
	{"a transaction that enqueues after a job that ends meanwhile is judged after its commit", flowTxLate},
}

func flowTxEnqueue(t *test) {
	for _, commit := range []bool{false, true} {
		first := t.enqueue(dibs.NewJob{Kind: "k"})[0]
		tx := t.beginTx()
		all := t.enqueueOn(tx, after(dibs.Ref("a")), after(dibs.After("a")), after(dibs.After(first)))
		again := t.enqueueOn(tx, after(dibs.After("a")), after(dibs.After(all[1]))) // refs are those of one call
		if !commit {
			t.must(tx.Rollback())
			t.complete(t.claimExactly("the first", first)...)
			t.sweep()
			t.expectGone(all[0])
			continue
		}
		t.must(tx.Commit())
		tx.Wake()
		t.inState(dibs.Blocked, all[1], all[2], again[1])
		claimed := t.claimSoon(dibs.ClaimRequest{}, 3) // as in flowRequeueLate
		sameIDs(t, "the first ones", slices.Sorted(slices.Values(ids(claimed))), []int64{first, all[0], again[0]})
		t.complete(claimed...)
		t.becomes(dibs.Waiting, all[1], all[2])
		t.complete(t.claim(dibs.ClaimRequest{N: 10})...)
		t.complete(t.startsSoon("the last", again[1])...)
	}
}

func flowTxFinish(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.After("b")))
	l := t.claimExactly("the first", all[0])[0].Lease()
	tx := t.beginTx()
	t.must(tx.Finish(t.ctx, []dibs.Outcome{l.Complete(nil)}))
	t.must(tx.Rollback())
	t.sweep()
	t.inState(dibs.Blocked, all[1:]...)
	tx = t.beginTx()
	t.must(tx.Finish(t.ctx, []dibs.Outcome{l.Die("e")}))
	t.must(tx.Commit())
	tx.Wake()
	t.cancelledBy(all[0], all[1:]...)
}

func flowTxLate(t *test) {
	first := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	job := t.claimExactly("the first", first)[0]
	tx := t.beginTx()
	id := t.enqueueOn(tx, after(dibs.After(first)))[0]
	if t.OpenTx {
		t.complete(job) // another connection ends it while the transaction is open
	}
	t.must(tx.Commit())
	if !t.OpenTx {
		t.complete(job)
	}
	t.startsSoon("the follower", id)
}
