package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// A transaction of a user holds the follower's row: neither the finish of its parent nor the settlement waits, and the
// follower goes on once the row is free.
func TestNoFinishWaitsForTheRowOfAFollower(t *testing.T) {
	b := newFlowBench(t)
	ids := b.enqueue(dibs.NewJob{Kind: "k", Ref: "a"}, follower("a"), dibs.NewJob{Kind: "k", Ref: "b"}, follower("b"))
	leases := b.claim(2)
	b.stores[0].sweeper.settler.running = make(chan struct{}) // so the sweep below has the turn, and no goroutine
	defer close(b.stores[0].sweeper.settler.running)          // Close would wait for it
	tx := b.hold("select from dibs.job where id = any ($1) for update", []int64{ids[1], ids[3]})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b.must(b.stores[0].Finish(ctx, []dibs.Outcome{leases[0].Lease().Complete(nil), leases[1].Lease().Die("e")}))
	_, err := b.stores[0].Sweep(ctx)
	b.must(err)
	for _, id := range []int64{ids[1], ids[3]} {
		b.becomes(id, dibs.Blocked)
	}
	b.must(tx.Rollback(t.Context()))
	_, err = b.stores[0].Sweep(t.Context())
	b.must(err)
	b.becomes(ids[1], dibs.Waiting)
	b.becomes(ids[3], dibs.Cancelled)
}

// Two jobs die that a third needs, whose row a user holds. One of them is requeued, and completes: the other is dead all
// the same.
func TestAHeldFollowerOfTwoDeadIsCancelledForEach(t *testing.T) {
	b := newFlowBench(t)
	ids := b.enqueue(dibs.NewJob{Kind: "k", Ref: "a"}, dibs.NewJob{Kind: "k", Ref: "b"}, follower("a", "b"))
	jobs := b.claim(2)
	tx := b.hold("select from dibs.job where id = $1 for update", ids[2])
	b.stores[0].sweeper.settler.running = make(chan struct{}) // so only the calls below settle
	defer close(b.stores[0].sweeper.settler.running)
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Die("x"), jobs[1].Lease().Die("y")}))
	b.must(b.stores[0].settle(t.Context(), settleFor))
	b.becomes(ids[2], dibs.Blocked)
	_, err := b.stores[0].Requeue(t.Context(), ids[:1], time.Time{})
	b.must(err)
	b.must(tx.Rollback(t.Context()))
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{b.claim(1)[0].Lease().Complete(nil)}))
	b.must(b.stores[0].settle(t.Context(), settleFor))
	b.becomes(ids[2], dibs.Cancelled)
}

// A user holds the row of an ended job that just got a follower: other flows go on.
func TestAHeldEndedJobHoldsUpNoOtherFlow(t *testing.T) {
	b := newFlowBench(t)
	parent := b.enqueue(dibs.NewJob{Kind: "k"})[0]
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{b.claim(1)[0].Lease().Complete(nil)}))
	ids := b.enqueue(dibs.NewJob{Kind: "k", Ref: "a"}, follower("a"))
	lease := b.claim(1)[0].Lease()
	b.hold("select from dibs.finished where id = $1 for update", parent)
	own := b.enqueue(follower(parent))[0]
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}))
	b.becomes(ids[1], dibs.Waiting)
	b.becomes(own, dibs.Waiting)
}

// A long chain is to be cancelled that nobody settles, as the process has died whose job's end began it. A claim returns
// its jobs before that is done.
func TestAClaimDoesNotWaitForALongSettlement(t *testing.T) {
	b := newFlowBench(t)
	chain := []dibs.NewJob{{Kind: "k", Ref: "0"}}
	for i := range 300 {
		j := follower(strconv.Itoa(i))
		j.Ref = strconv.Itoa(i + 1)
		chain = append(chain, j)
	}
	ids := b.enqueue(chain...)
	b.stores[0].sweeper.settler.running = make(chan struct{})
	defer close(b.stores[0].sweeper.settler.running)
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{b.claim(1)[0].Lease().Die("x")}))
	b.enqueue(dibs.NewJob{Kind: "k", Queue: "other"})
	b.stores[1].sweeper.settler.running = make(chan struct{}) // the claim below leaves the settlement to a goroutine; here there is none
	defer close(b.stores[1].sweeper.settler.running)
	b.stores[1].sweeper.sweptAt = time.Now()
	claimed, err := b.stores[1].Claim(t.Context(), dibs.ClaimRequest{Queue: "other", Worker: "w", N: 1})
	b.must(err)
	if len(claimed) != 1 {
		t.Fatalf("claimed %d jobs", len(claimed))
	}
	b.becomes(ids[300], dibs.Blocked)
	if !b.stores[1].sweeper.settler.again {
		t.Error("the claim has not seen that there is something to settle")
	}
	b.stores[1].sweeper.expireCheckedAt = time.Time{}
	_, err = b.stores[1].Claim(t.Context(), dibs.ClaimRequest{Queue: "empty", Worker: "w", N: 1})
	b.must(err)
	b.becomes(ids[300], dibs.Blocked) // one that finds nothing settles one round
	b.must(b.stores[1].settle(t.Context(), untilDone))
	b.becomes(ids[300], dibs.Cancelled)
}

// While an outcome that adds jobs is not committed yet, what would follow them is cancelled, and is not kept: edges of it
// are left, which Check names and Repair deletes.
func TestEdgesThatAreLeftAreRepaired(t *testing.T) {
	b := newFlowBench(t)
	ids := b.enqueue(dibs.NewJob{Kind: "k", Ref: "p"}, follower("p"))
	b.claim(1)
	_, err := b.stores[1].pool.Exec(t.Context(), "delete from dibs.job where id = $1", ids[1])
	b.must(err)
	want := fmt.Sprintf("job %d: its edges are left, and it is gone", ids[1])
	found, err := b.stores[0].Check(t.Context())
	if err != nil || !slices.Contains(found, want) {
		t.Errorf("found %q, %v, want %q among them", found, err, want)
	}
	repaired, err := b.stores[0].Repair(t.Context())
	if err != nil || !slices.Contains(repaired, want) {
		t.Errorf("repaired %q, %v", repaired, err)
	}
}

// A transaction of a user enqueues a follower of a job that runs: its finish does not wait for that transaction.
func TestNoFinishWaitsForATransactionThatFollowsIt(t *testing.T) {
	b := newFlowBench(t)
	parent := b.enqueue(dibs.NewJob{Kind: "k"})[0]
	lease := b.claim(1)[0].Lease()
	b.must(b.stores[1].InTx(t.Context(), func(tx dibs.Tx) error {
		if _, err := tx.Enqueue(t.Context(), []dibs.NewJob{follower(parent)}); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return b.stores[0].finish(ctx, []dibs.Outcome{lease.Complete(nil)}, finisher{conn: b.stores[0].db, lockWait: rowLockWait, settle: func() {}})
	}))
}

// A follower whose row was lost from the list, as by SQL by hand, is found by upkeep.
func TestUpkeepFindsFollowersThatNobodyLooksAt(t *testing.T) {
	b := newFlowBench(t)
	ids := b.enqueue(dibs.NewJob{Kind: "k", Ref: "a"}, follower("a"), dibs.NewJob{Kind: "k", Ref: "b"}, follower("b"))
	execHere := func(sql string, args ...any) {
		t.Helper()
		_, err := b.stores[1].pool.Exec(t.Context(), sql, args...)
		b.must(err)
	}
	execHere("delete from dibs.job where id = $1", ids[0])
	execHere("update dibs.edge set open = false where child = $1", ids[3])
	found, err := b.stores[0].Check(t.Context())
	b.must(err)
	if len(found) < 3 { // two of these jobs, and a count
		t.Errorf("check finds %q", found)
	}
	_, err = b.stores[1].Repair(t.Context())
	b.must(err)
	b.becomes(ids[1], dibs.Cancelled)
	b.becomes(ids[3], dibs.Waiting)
}

// A transaction of a user holds the unique key of a job that is requeued: others settle meanwhile.
func TestNoSettlementWaitsForARequeueThatWaitsForAUniqueKey(t *testing.T) {
	b := newFlowBench(t)
	keyed := dibs.NewJob{Kind: "k", UniqueKey: "u"}
	old := b.enqueue(keyed)[0]
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{b.claim(1)[0].Lease().Complete(nil)}))
	flow := b.enqueue(dibs.NewJob{Kind: "k", Ref: "a"}, follower("a"))
	lease := b.claim(1)[0].Lease()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	requeued := make(chan error, 1)
	b.must(b.stores[1].InTx(t.Context(), func(tx dibs.Tx) error {
		if _, err := tx.Enqueue(t.Context(), []dibs.NewJob{keyed}); err != nil {
			return err
		}
		go func() {
			err := dibs.ErrUnavailable
			for errors.Is(err, dibs.ErrUnavailable) {
				_, err = b.stores[1].Requeue(ctx, []int64{old}, time.Time{})
			}
			requeued <- err
		}()
		b.waitsForLock()
		b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}))
		for end := time.Now().Add(20 * time.Second); b.state(flow[1]) == dibs.Blocked && time.Now().Before(end); {
			_, err := b.stores[0].Sweep(t.Context())
			b.must(err)
		}
		b.becomes(flow[1], dibs.Waiting)
		return nil
	}))
	b.must(<-requeued)
	b.becomes(old, dibs.Waiting)
}

// However many jobs a flow has, and however many a job comes after, few of them are read.
func TestFlowsReadABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	s := migrated(t)
	const n, most = 20_000, 100
	bind := n + 1
	for _, text := range []string{
		"insert into dibs.queue (name) values ('q')",
		fmt.Sprintf(`insert into dibs.job (id, queue, kind, payload, run_at, created_at, max_attempts, priority, gate, flow, followed)
			select i, 'q', case when i > %[1]d then 'bind' else 'page' end, '1', now(), now(), 1, 1, case when i > %[1]d then 5 else 0 end, 1, i <= %[1]d from generate_series(1, %[1]d + 1) i where i %% 2 = 1`, n),
		fmt.Sprintf(`insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload, flow, cause)
			select i, case when i > %[1]d + 1 then 'cancelled' when i %% 4000 = 0 then 'dead' else 'completed' end, now(), now(), now(), 1, 0, 1, 1, false, 'q', 'page', '1', 1, case when i > %[1]d then 4000 end
			from generate_series(1, 2 * %[1]d) i where i %% 2 = 0 or i > %[1]d + 1`, n),
		fmt.Sprintf("insert into dibs.edge (child, parent, need, open) select %[1]d + 1, i, 'ended', i %% 2 = 1 from generate_series(1, %[1]d) i", n),
		"analyze dibs.job", "analyze dibs.finished", "analyze dibs.edge",
	} {
		if _, err := s.pool.Exec(t.Context(), text); err != nil {
			t.Fatal(text, err)
		}
	}
	read := countReads(t, s)
	for id, want := range map[int64]dibs.State{int64(bind): dibs.Blocked, 4000: dibs.Dead} {
		before := [3]int{read("dibs.job"), read("dibs.finished"), read("dibs.edge")}
		f, err := s.Flow(t.Context(), id, most)
		if err != nil || f.State != want || len(f.All) != 2 || f.All[0].Completed != most || f.All[0].Waiting+f.All[1].Blocked != most || f.All[0].Dead != n/4000 || f.All[0].Cancelled != most {
			t.Errorf("job %d: %+v, %v", id, f, err)
		}
		if id == 4000 && f.Caused != most {
			t.Errorf("%d were cancelled because of job %d", f.Caused, id)
		}
		for i, table := range []string{"dibs.job", "dibs.finished", "dibs.edge"} {
			if n := read(table) - before[i]; n > 8*most {
				t.Errorf("for job %d it reads %d rows of %s", id, n, table)
			}
		}
	}
}
