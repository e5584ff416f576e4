package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Claim inside the caller's own transaction: while it is open, the row lock is the lease.
// Requirement 5: take, process, finish, commit; a rollback gives the job back at once.
var txClaimCases = []oneCase{
	{"what is claimed and finished is so with the commit", txClaimCommit},
	{"a job that is not finished by the commit stays claimed", txClaimLeased},
	{"a finish is good however long the transaction took", txClaimLong},
	{"a lease that ended before the commit has ended", txClaimLate},
	{"a rollback gives the jobs back at once, as if never claimed", txClaimRollback},
	{"a lost connection gives the jobs back at once", txClaimBreak},
	{"the effects of a rolled back attempt did not happen", txClaimEffects},
	{"every ending can be written in the transaction", txClaimFinish},
	{"a failure is counted by a savepoint, a retry and a commit", txClaimSavepoint},
	{"a claim that a savepoint undid is lost", txClaimUndone},
	{"a finish that a savepoint undid can be written otherwise", txClaimRefinished},
	{"another Tx of the transaction has the same jobs", txClaimAgain},
	{"a transaction may claim several times", txClaimTwice},
	{"a pipeline moves from queue to queue", txClaimPipeline},
	{"order, kinds and pause hold", txClaimRules},
	{"group limits hold", txClaimGroups},
	{"the queue's concurrency limit holds", txClaimConcurrency},
	{"others pass over its jobs and do not wait", txClaimPassedOver},
	{"reading does not wait for it", txClaimReaders},
	{"without retention the jobs are gone after the commit", txClaimNothingKept},
}

func txClaimCommit(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k", Payload: "p"})...)
	tx := t.beginTx()
	jobs := t.claimOn(tx, dibs.ClaimRequest{N: 2, Worker: "server"})
	sameIDs(t, "claimed", ids(jobs), all[:2])
	for _, j := range jobs {
		equal(t, "state, attempt, worker, payload", []any{j.State, j.Attempt, j.Worker, string(j.Payload)}, []any{dibs.Running, 1, "server", `"p"`})
		if j.Token.IsZero() || j.Token != jobs[0].Token {
			t.Fatalf("tokens %v and %v", j.Token, jobs[0].Token)
		}
	}
	t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
	t.must(tx.Commit())
	got := t.get(all[0])
	equal(t, "state, attempt, worker", []any{got.State, got.Attempt, got.Worker}, []any{dibs.Completed, 1, "server"})
	if got.FinishedAt.IsZero() || got.ClaimedAt.IsZero() {
		t.Fatalf("claimed %v, finished %v", got.ClaimedAt, got.FinishedAt)
	}
	t.inState(dibs.Completed, all[1])
	sameIDs(t, "claimed after", ids(t.claim(dibs.ClaimRequest{N: 5})), all[2:])
}

func txClaimLeased(t *test) {
	all := t.enqueue(copies(2, grouped("g"))...)
	tx := t.beginTx()
	j := t.claimOn(tx, dibs.ClaimRequest{N: 2, Lease: time.Hour})[0]
	t.must(tx.Commit())
	got := t.get(j.ID)
	equal(t, "state, attempt, token", []any{got.State, got.Attempt, got.Token}, []any{dibs.Running, 1, j.Token})
	t.claimExactly("while the group's job is leased")
	t.extendAll(time.Hour, j.Lease())
	t.finish(j.Lease().Complete(nil))
	t.claimExactly("after the finish", all[1])
}

// txClaimLong lets leases end inside of the transaction that claimed the jobs. Neither others
// nor the transaction's next claim may take the jobs, and each ending can still be written.
func txClaimLong(t *test) {
	n := len(endings(dibs.Lease{}))
	all := t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	jobs := t.claimOn(tx, dibs.ClaimRequest{N: n, Lease: dibs.MinLease})
	sameIDs(t, "claimed", ids(jobs), all)
	t.waitUntil("the leases have ended", func() bool { return time.Since(jobs[0].LeaseUntil) > time.Millisecond })
	if t.OpenTx {
		t.sweep()
		sameIDs(t, "claimed by another", ids(t.claim(dibs.ClaimRequest{N: n})), nil)
	}
	sameIDs(t, "claimed again", ids(t.claimOn(tx, dibs.ClaimRequest{N: n})), nil)
	var batch []dibs.Outcome
	for i, j := range jobs {
		batch = append(batch, endings(j.Lease())[i])
	}
	t.must(tx.Finish(t.ctx, batch))
	t.must(tx.Commit())
	t.sweep()
	for i, id := range all {
		t.inState([]dibs.State{
			dibs.Completed, dibs.Waiting, dibs.Waiting, dibs.Waiting, dibs.Waiting, dibs.Dead, dibs.Cancelled,
		}[i], id)
	}
}

func txClaimLate(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	tx := t.beginTx()
	late := t.claimOn(tx, dibs.ClaimRequest{N: 1, Lease: dibs.MinLease})[0]
	t.must(tx.Commit())
	reclaimed := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	equal(t, "job and attempt", []any{reclaimed.ID, reclaimed.Attempt}, []any{id, 2})
	t.allRefused(late.Lease())
	tx = t.beginTx()
	t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{late.Lease().Complete(nil)}), id)
	t.must(tx.Rollback())
}

func txClaimRollback(t *test) {
	all := t.enqueue(copies(2, dibs.NewJob{Kind: "k", Group: "g"})...)
	before := t.get(all[0])
	for range 3 {
		tx := t.beginTx()
		jobs := t.claimOn(tx, dibs.ClaimRequest{N: 2})
		sameIDs(t, "claimed", ids(jobs), all[:1])
		equal(t, "attempt", jobs[0].Attempt, 1)
		t.must(tx.Rollback())
		got := t.get(all[0])
		before.State = got.State // it is blocked until the first claim admits it
		sameJob(t, got, before)
	}
	j := t.claimOne(dibs.ClaimRequest{})
	equal(t, "job and attempt", []any{j.ID, j.Attempt}, []any{all[0], 1})
}

// Requirement 5: losing the connection gives the job back at once.
func txClaimBreak(t *test) {
	count := t.effects()
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(2)})
	all := t.enqueue(grouped("g"), dibs.NewJob{Kind: "k"}, grouped("g"))
	tx := t.beginTx()
	sameIDs(t, "claimed", ids(t.claimOn(tx, dibs.ClaimRequest{N: 3})), all[:2])
	t.must(tx.Exec(t.ctx, effect(all[0])))
	t.must(tx.Break())
	jobs := t.claimSoon(dibs.ClaimRequest{}, 2)
	sameIDs(t, "claimed again", ids(jobs), all[:2])
	equal(t, "attempt", jobs[0].Attempt, 1)
	equal(t, "effects", count(), 0)
}

func txClaimEffects(t *test) {
	count := t.effects()
	t.enqueue(dibs.NewJob{Kind: "k"})
	for _, end := range []func(Tx) error{func(tx Tx) error { return tx.Rollback() }, func(tx Tx) error { return tx.Commit() }} {
		tx := t.beginTx()
		jobs := t.claimOn(tx, dibs.ClaimRequest{N: 1})
		equal(t, "claimed jobs", len(jobs), 1)
		t.must(tx.Exec(t.ctx, effect(jobs[0].ID)))
		t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
		t.must(end(tx))
	}
	equal(t, "effects", count(), 1)
}

func txClaimFinish(t *test) {
	n := len(endings(dibs.Lease{}))
	all := t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	jobs := t.claimOn(tx, dibs.ClaimRequest{N: n})
	sameIDs(t, "claimed", ids(jobs), all)
	var batch []dibs.Outcome
	for i, j := range jobs {
		batch = append(batch, endings(j.Lease())[i])
	}
	t.must(tx.Finish(t.ctx, batch))
	t.must(tx.Commit())
	want := []dibs.State{dibs.Completed, dibs.Waiting, dibs.Waiting, dibs.Waiting, dibs.Waiting, dibs.Dead, dibs.Cancelled}
	for i, id := range all {
		got := t.get(id)
		equal(t, "state and attempt", []any{got.State, got.Attempt}, []any{want[i], 1})
	}
	equal(t, "result", string(t.get(all[0]).Result), `"r"`)
	equal(t, "error", t.get(all[1]).Errors[0].Error, "e")
	equal(t, "excused", []int{t.get(all[3]).Excused, t.get(all[4]).Excused}, []int{1, 1})
	for _, j := range jobs {
		t.allRefused(j.Lease())
	}
}

func txClaimSavepoint(t *test) {
	count := t.effects()
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 2})[0]
	for attempt, want := range []dibs.State{dibs.Waiting, dibs.Dead} {
		tx := t.beginTx()
		jobs := t.claimOn(tx, dibs.ClaimRequest{N: 1})
		equal(t, "claimed jobs", len(jobs), 1)
		t.must(tx.Exec(t.ctx, "savepoint handler"))
		t.must(tx.Exec(t.ctx, effect(id)))
		t.must(tx.Exec(t.ctx, "rollback to savepoint handler"))
		t.must(tx.Finish(t.ctx, []dibs.Outcome{jobs[0].Lease().RetryAfter(0, "e")}))
		t.must(tx.Commit())
		got := t.get(id)
		equal(t, "state, attempt, errors", []any{got.State, got.Attempt, len(got.Errors)}, []any{want, attempt + 1, attempt + 1})
	}
	equal(t, "effects", count(), 0)
}

func txClaimUndone(t *test) {
	for _, keep := range []time.Duration{time.Hour, 0} {
		t.set(dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(keep)})
		id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
		tx := t.beginTx()
		t.must(tx.Exec(t.ctx, "savepoint earlier"))
		undone := t.claimOn(tx, dibs.ClaimRequest{N: 1})
		t.must(tx.Exec(t.ctx, "rollback to savepoint earlier"))
		t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{undone[0].Lease().RetryAfter(0, "e")}), id)
		reclaimed := t.claimOn(tx, dibs.ClaimRequest{N: 1})
		sameIDs(t, "claimed again", ids(reclaimed), []int64{id})
		t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{undone[0].Lease().RetryAfter(0, "e")}), id)
		t.must(tx.Finish(t.ctx, []dibs.Outcome{reclaimed[0].Lease().Die("e")}))
		t.must(tx.Commit())
		got := t.get(id)
		equal(t, "state, attempt, errors", []any{got.State, got.Attempt, len(got.Errors)}, []any{dibs.Dead, 1, 1})
	}
}

func txClaimRefinished(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", Payload: "p", UniqueKey: "u"})[0]
	tx := t.beginTx()
	j := t.claimOn(tx, dibs.ClaimRequest{N: 1})[0]
	t.must(tx.Exec(t.ctx, "savepoint earlier"))
	t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().RetryAfter(0, "e")}))
	t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Die("again")}), id)
	t.must(tx.Exec(t.ctx, "rollback to savepoint earlier"))
	t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Die("d")}))
	t.must(tx.Commit())
	got := t.get(id)
	equal(t, "state, payload, error", []any{got.State, string(got.Payload), got.Errors[0].Error}, []any{dibs.Dead, `"p"`, "d"})
}

// A claim belongs to the transaction, so another dibs.Tx for it has the same jobs. The two
// differ only after a lease has ended.
func txClaimAgain(t *test) {
	for _, keep := range []time.Duration{time.Hour, 0} {
		t.set(dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(keep), Concurrency: new(1)})
		all := t.enqueue(copies(2, dibs.NewJob{Kind: "k", Payload: "p"})...)
		tx := t.beginTx()
		j := t.claimOn(tx, dibs.ClaimRequest{N: 2})
		sameIDs(t, "claimed", ids(j), all[:1])
		sameIDs(t, "claimed by another Tx, beyond the limit", ids(t.claimOn(tx.Again(), dibs.ClaimRequest{N: 2})), nil)
		t.must(tx.Again().Finish(t.ctx, []dibs.Outcome{j[0].Lease().Die("e")}))
		t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{j[0].Lease().Retry("e")}), all[0])
		next := t.claimOn(tx.Again(), dibs.ClaimRequest{N: 2})
		sameIDs(t, "claimed in the free place", ids(next), all[1:])
		t.must(tx.Finish(t.ctx, outcomes(next, completed)))
		t.must(tx.Commit())
		got := t.get(all[0])
		equal(t, "state and payload", []any{got.State, string(got.Payload)}, []any{dibs.Dead, `"p"`})
	}
}

func txClaimTwice(t *test) {
	all := t.enqueue(copies(6, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	first := t.claimOn(tx, dibs.ClaimRequest{N: 2})
	second := t.claimOn(tx, dibs.ClaimRequest{N: 2})
	sameIDs(t, "claimed", append(ids(first), ids(second)...), all[:4])
	if first[0].Token == second[0].Token {
		t.Fatal("two claims share a token")
	}
	t.must(tx.Finish(t.ctx, outcomes(append(first, second...), completed)))
	t.must(tx.Commit())
	t.inState(dibs.Completed, all[:4]...)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, running, completed", []int64{s.Waiting, s.Running, s.Completed}, []int64{2, 0, 4})
}

func txClaimPipeline(t *test) {
	const n = 5
	t.enqueue(copies(n, dibs.NewJob{Queue: "in", Kind: "k"})...)
	for range n {
		tx := t.beginTx()
		jobs := t.claimOn(tx, dibs.ClaimRequest{Queue: "in", N: 1})
		t.enqueueOn(tx, dibs.NewJob{Queue: "out", Kind: "k", Payload: jobs[0].ID})
		t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
		t.must(tx.Commit())
	}
	equal(t, "completed", t.stats("in").Completed, int64(n))
	equal(t, "moved on", len(t.claim(dibs.ClaimRequest{Queue: "out", N: 2 * n})), n)
}

func txClaimRules(t *test) {
	all := t.enqueue(
		dibs.NewJob{Kind: "a"}, dibs.NewJob{Kind: "b"}, dibs.NewJob{Kind: "b", Priority: new(1)},
		dibs.NewJob{Kind: "b", Delay: time.Hour},
	)
	tx := t.beginTx()
	sameIDs(t, "claimed", ids(t.claimOn(tx, dibs.ClaimRequest{N: 5, Kinds: []string{"b"}})), []int64{all[2], all[1]})
	t.must(tx.Rollback())
	t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(true)})
	tx = t.beginTx()
	sameIDs(t, "claimed while paused", ids(t.claimOn(tx, dibs.ClaimRequest{N: 5})), nil)
	sameIDs(t, "claimed from nobody's queue", ids(t.claimOn(tx, dibs.ClaimRequest{Queue: "nobody's", N: 5})), nil)
	t.must(tx.Commit())
}

func txClaimGroups(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k", Group: "g"})...)
	for _, id := range all {
		tx := t.beginTx()
		jobs := t.claimOn(tx, dibs.ClaimRequest{N: 3})
		sameIDs(t, "claimed", ids(jobs), []int64{id})
		for range 2 {
			if t.OpenTx {
				sameIDs(t, "claimed by another", ids(t.claim(dibs.ClaimRequest{N: 3})), nil)
			}
			t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
			jobs = nil
		}
		t.must(tx.Commit())
	}
	t.inState(dibs.Completed, all...)
}

func txClaimConcurrency(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(2)})
	all := t.enqueue(copies(6, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	sameIDs(t, "claimed", ids(t.claimOn(tx, dibs.ClaimRequest{N: 5})), all[:2])
	sameIDs(t, "claimed again by the same transaction", ids(t.claimOn(tx, dibs.ClaimRequest{N: 5})), nil)
	if t.OpenTx {
		sameIDs(t, "claimed by another", ids(t.claim(dibs.ClaimRequest{N: 5})), nil)
	}
	t.must(tx.Rollback())
	running := t.claim(dibs.ClaimRequest{N: 5})
	sameIDs(t, "claimed after the rollback", ids(running), all[:2])
	t.finish(running[0].Lease().Complete(nil))
	tx = t.beginTx()
	jobs := t.claimOn(tx, dibs.ClaimRequest{N: 5})
	sameIDs(t, "claimed in the place left", ids(jobs), all[2:3])
	t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
	sameIDs(t, "claimed in its own place", ids(t.claimOn(tx, dibs.ClaimRequest{N: 5})), all[3:4])
	t.must(tx.Commit())
	sameIDs(t, "claimed after the commit", ids(t.claim(dibs.ClaimRequest{N: 5})), nil)
}

// Requirement 3: agents never wait for each other.
func txClaimPassedOver(t *test) {
	if !t.OpenTx {
		t.Skip("one writer at a time: the others wait for the transaction")
	}
	all := t.enqueue(copies(6, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	sameIDs(t, "claimed", ids(t.claimOn(tx, dibs.ClaimRequest{N: 2})), all[:2])
	got := t.claim(dibs.ClaimRequest{N: 2})
	sameIDs(t, "claimed by another", ids(got), all[2:4])
	t.finish(got[0].Lease().Complete(nil), got[1].Lease().Release())
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.sweep()
	second := t.beginTx()
	sameIDs(t, "claimed by a second transaction", ids(t.claimOn(second, dibs.ClaimRequest{N: 2})), all[3:5])
	t.must(second.Commit())
	t.must(tx.Rollback())
	t.waitUntil("the given back jobs are claimed", func() bool {
		for _, j := range t.claim(dibs.ClaimRequest{N: 5}) {
			if j.ID == all[1] {
				return true
			}
		}
		return false
	})
}

// Requirement 5: lists, statistics and the web page never lock a row.
func txClaimReaders(t *test) {
	other := t.Another(t)
	all := t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	tx := t.beginTx()
	sameIDs(t, "claimed", ids(t.claimOn(tx, dibs.ClaimRequest{N: 2})), all[:2])
	for _, db := range []admin.Database{t.db, other} {
		j, err := db.Get(t.ctx, all[0])
		t.must(err)
		equal(t, "state seen by others", j.State, dibs.Waiting)
		p, err := db.List(t.ctx, admin.Filter{})
		t.must(err)
		equal(t, "jobs listed", len(p.Jobs), 4)
		s, err := db.Stats(t.ctx)
		t.must(err)
		equal(t, "waiting", s[0].Waiting, int64(4))
		q, err := db.Queues(t.ctx)
		t.must(err)
		equal(t, "queues", len(q), 1)
	}
	t.must(tx.Commit())
	equal(t, "waiting", t.stats(dibs.DefaultQueue).Waiting, int64(2))
}

func txClaimNothingKept(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(time.Duration)})
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	tx := t.beginTx()
	jobs := t.claimOn(tx, dibs.ClaimRequest{N: 2})
	sameIDs(t, "claimed", ids(jobs), []int64{id})
	t.must(tx.Finish(t.ctx, outcomes(jobs, completed)))
	t.must(tx.Commit())
	t.expectGone(id)
}
