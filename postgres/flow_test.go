package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// flowBench is a database with two processes.
type flowBench struct {
	*testing.T
	stores [2]*Store
}

func newFlowBench(t *testing.T) flowBench {
	t.Helper()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	b := flowBench{T: t}
	for i := range b.stores {
		s, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // nothing is left to fail
		b.stores[i] = s
	}
	t.Cleanup(func() {
		if found, err := b.stores[0].Check(context.Background()); err != nil || len(found) > 0 {
			t.Errorf("check: %q, %v", found, err)
		}
	})
	return b
}

func (b flowBench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b flowBench) enqueue(jobs ...dibs.NewJob) (ids []int64) {
	b.Helper()
	all, err := b.stores[0].Enqueue(b.Context(), jobs)
	b.must(err)
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

// claim claims n jobs, by a process that then neither sweeps nor settles for a while.
func (b flowBench) claim(n int) []*dibs.RawJob {
	b.Helper()
	jobs, err := b.stores[0].Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: n, Lease: time.Hour})
	if err != nil || len(jobs) != n {
		b.Fatalf("claimed %d jobs, want %d: %v", len(jobs), n, err)
	}
	return jobs
}

// becomes waits until the job is in a state. If nothing settles by itself, no call here does.
func (b flowBench) becomes(id int64, want dibs.State) {
	b.Helper()
	var got *dibs.RawJob
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var err error
		got, err = b.stores[0].Get(b.Context(), id)
		b.must(err)
		if got.State == want {
			return
		}
	}
	b.Fatalf("job %d is %s, waits for %d, want %s", id, got.State, got.WaitsFor, want)
}

// hold has a user's transaction lock a row until it is rolled back, at the latest at the end of the test.
func (b flowBench) hold(query string, of any) pgx.Tx {
	b.Helper()
	tx, err := b.stores[1].pool.Begin(b.Context())
	b.must(err)
	b.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(b.Context(), query, of)
	b.must(err)
	return tx
}

// waitsForLock returns once a statement waits for a lock.
func (b flowBench) waitsForLock() {
	b.Helper()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		const waiting = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
		b.must(b.stores[0].pool.QueryRow(b.Context(), waiting).Scan(&waits))
	}
}

func (b flowBench) state(id int64) dibs.State {
	b.Helper()
	j, err := b.stores[0].Get(b.Context(), id)
	b.must(err)
	return j.State
}

func follower[T int64 | string](of ...T) dibs.NewJob {
	j := dibs.NewJob{Kind: "k"}
	dibs.After(of...)(&j)
	return j
}

// Nobody's sweep helps here: the process that ends the last parent releases the follower, though another ends the other
// parent at the same moment.
func TestTheLastTwoParentsEndAtOnce(t *testing.T) {
	b := newFlowBench(t)
	const rounds = 40
	for range rounds {
		page := dibs.NewJob{Kind: "k", Ref: "page"}
		ids := b.enqueue(page, page, follower("page"))
		jobs := b.claim(2)
		var ends sync.WaitGroup
		errs := make([]error, 2)
		for i, s := range b.stores {
			ends.Go(func() { errs[i] = s.Finish(t.Context(), []dibs.Outcome{jobs[i].Lease().Complete(nil)}) })
		}
		ends.Wait()
		b.must(errors.Join(errs...))
		b.becomes(ids[2], dibs.Waiting)
		b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{b.claim(1)[0].Lease().Complete(nil)}))
	}
}

// A follower comes while its parent's end is written by an open transaction: that transaction knows of no follower.
func TestAFollowerComesBesideTheEndOfItsParent(t *testing.T) {
	b := newFlowBench(t)
	parent := b.enqueue(dibs.NewJob{Kind: "k"})[0]
	lease := b.claim(1)[0].Lease()
	for _, s := range b.stores {
		s.sweeper.settler.running = make(chan struct{}) // so no goroutine starts, and what settles does so while the row is locked
	}
	var child int64
	b.must(b.stores[1].InTx(t.Context(), func(tx dibs.Tx) error {
		if err := tx.Finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}); err != nil {
			return err
		}
		child = b.enqueue(follower(parent))[0]
		b.must(b.stores[0].settle(t.Context(), settleFor))
		b.becomes(child, dibs.Blocked)
		return nil
	}))
	b.must(b.stores[1].settle(t.Context(), settleFor))
	b.becomes(child, dibs.Waiting)
	for _, s := range b.stores {
		close(s.sweeper.settler.running)
	}
}

// A follower's transaction is open while its parent ends and is settled.
func TestAFollowerIsCommittedAfterTheEndOfItsParent(t *testing.T) {
	b := newFlowBench(t)
	parent := b.enqueue(dibs.NewJob{Kind: "k"})[0]
	lease := b.claim(1)[0].Lease()
	var child int64
	b.must(b.stores[0].InTx(t.Context(), func(tx dibs.Tx) error {
		out, err := tx.Enqueue(t.Context(), []dibs.NewJob{follower(parent)})
		if err != nil {
			return err
		}
		child = out[0].ID
		if err := b.stores[1].Finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}); err != nil {
			return err
		}
		_, err = b.stores[1].Sweep(t.Context())
		return err
	}))
	b.becomes(child, dibs.Waiting)
}

// A settlement marks a job that a finish is about to delete: the finish waits for it, and then knows of the follower.
func TestAFinishReadsTheMarkThatItHasWaitedFor(t *testing.T) {
	for text, whole := range map[string]bool{"the whole text": true, "the text for plain jobs": false} {
		t.Run(text, func(t *testing.T) { finishWaitsForMark(t, whole) })
	}
}

func finishWaitsForMark(t *testing.T, whole bool) {
	b := newFlowBench(t)
	parent := b.enqueue(dibs.NewJob{Kind: "k"})[0]
	lease := b.claim(1)[0].Lease()
	for _, s := range b.stores {
		s.sweeper.settler.running = make(chan struct{}) // so no goroutine starts
	}
	child := b.enqueue(follower(parent))[0]
	tx, err := b.stores[0].pool.Begin(t.Context())
	b.must(err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "delete from dibs.ended_list")
	b.must(err)
	_, err = tx.Exec(t.Context(), "update dibs.job set followed = true where id = $1", parent)
	b.must(err)
	finished := make(chan error)
	go func() {
		finished <- b.stores[1].finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}, finisher{conn: b.stores[1].db, whole: whole})
	}()
	b.waitsForLock()
	b.must(tx.Commit(t.Context()))
	b.must(<-finished)
	b.must(b.stores[0].settle(t.Context(), settleFor))
	b.becomes(child, dibs.Waiting)
	for _, s := range b.stores {
		close(s.sweeper.settler.running)
	}
}

// A parent that was there before its follower is marked, so that its end is noticed like any other.
func TestALateFollowerIsReleasedByTheEndOfItsParent(t *testing.T) {
	b := newFlowBench(t)
	parent := b.enqueue(dibs.NewJob{Kind: "k"})[0]
	lease := b.claim(1)[0].Lease()
	child := b.enqueue(follower(parent))[0]
	b.settled()
	b.must(b.stores[1].Finish(t.Context(), []dibs.Outcome{lease.Complete(nil)}))
	b.becomes(child, dibs.Waiting)
}

// settled waits until nothing is left to settle.
func (b flowBench) settled() {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var left bool
		b.must(b.stores[0].upkeep.run(b.Context(), step{sql: "select exists (select from dibs.ended_list)"}.into(&left)))
		if !left {
			return
		}
	}
	b.Fatal("the list of ended jobs does not become empty")
}

// The process dies after the commit of a finish, before it has settled: a sweep of another does.
func TestAnotherProcessSettlesForOneThatWasKilled(t *testing.T) {
	b := newFlowBench(t)
	ids := b.enqueue(dibs.NewJob{Kind: "k", Ref: "a"}, follower("a"))
	b.stores[0].sweeper.settler.running = make(chan struct{}) // so no goroutine starts
	b.must(b.stores[0].Finish(t.Context(), []dibs.Outcome{b.claim(1)[0].Lease().Complete(nil)}))
	b.becomes(ids[1], dibs.Blocked)
	_, err := b.stores[1].Sweep(t.Context())
	b.must(err)
	b.becomes(ids[1], dibs.Waiting)
	close(b.stores[0].sweeper.settler.running) // Close would wait for it
}
