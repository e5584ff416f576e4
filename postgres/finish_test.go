package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// A worker that was suspended for a while writes its outcomes. Meanwhile a transaction has
// locked one job, and other workers have claimed the others. The worker learns of both, and
// can write the first outcome later.
func TestAStaleOutcomeBesideALockedOneIsReported(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("", "", "", "")
	jobs := b.take(4, 0)
	b.must(b.Finish(b.ctx, []dibs.Outcome{jobs[1].Lease().Release(), jobs[3].Lease().Release()}))
	fresh := b.take(2, 0)
	tx := b.begin()
	b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
	err := b.Finish(b.ctx, []dibs.Outcome{
		jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete(nil), jobs[2].Lease().Complete(nil), jobs[3].Lease().Retry("e"),
	})
	var left *dibs.FinishError
	if !errors.As(err, &left) || !slices.Equal(left.Unwritten, []int64{jobs[0].ID}) || !slices.Equal(left.Lost, []int64{jobs[1].ID, jobs[3].ID}) {
		t.Errorf("got %+v, want job %d unwritten, jobs %d and %d lost", err, jobs[0].ID, jobs[1].ID, jobs[3].ID)
	}
	b.must(tx.Rollback(b.ctx))
	b.must(b.Finish(b.ctx, []dibs.Outcome{
		jobs[0].Lease().Complete(nil), fresh[0].Lease().Complete(nil), fresh[1].Lease().Complete(nil),
	}))
	if stats, err := b.Stats(b.ctx); err != nil || stats[0].Completed != 4 {
		t.Errorf("completed: %+v, %v", stats, err)
	}
	b.consistent()
}

// A claim that locks a row and then sees that the job is another's keeps the lock until it
// commits, which takes long on a busy machine. The job's finish waits for it, after it has
// written the others.
func TestAFinishWaitsForAClaimThatHasLockedItsJob(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("", "")
	jobs := b.take(2, 0)
	claim := b.begin()
	_, err := claim.Exec(b.ctx, "select from dibs.job where id = $1 for no key update", jobs[0].ID)
	b.must(err)
	hook := &beforeStatement{}
	finisher := b.watched(hook, "complete")
	sent := 0
	var again func()
	again = func() { // the finish tries both jobs, then each alone, then the rest
		if sent++; sent < 4 {
			hook.do = again
			return
		}
		if j, err := b.Get(b.ctx, jobs[1].ID); err != nil || j.State != dibs.Completed {
			t.Errorf("the other job is not completed: %v", err)
		}
		b.must(claim.Commit(b.ctx))
	}
	hook.do = again
	if err := finisher.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete(nil)}); err != nil {
		t.Errorf("after %d tries: %v", sent, err)
	}
	b.consistent()
}

// A finish has seen a lease's old end and cannot look again because of a lock: it does not
// report the lease as lost.
func TestAFinishThatCannotLookAgainSaysSo(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("")
	jobs := b.take(1, time.Second)
	extension := b.begin()
	_, err := extension.Exec(b.ctx, "update dibs.job set lease_until = lease_until + interval '1 hour' where id = $1", jobs[0].ID)
	b.must(err)
	b.awaitLeaseEnd(jobs)
	done := []dibs.Outcome{jobs[0].Lease().Complete(nil)}
	err = b.Finish(b.ctx, done)
	var left *dibs.FinishError
	if !errors.As(err, &left) || !slices.Equal(left.Unwritten, []int64{jobs[0].ID}) || len(left.Lost) > 0 {
		t.Errorf("got %v, want job %d unwritten", err, jobs[0].ID)
	}
	b.must(extension.Commit(b.ctx))
	b.must(b.Finish(b.ctx, done))
	b.consistent()
}

// A finish writes what adds jobs first, and the rest by itself. If there is no answer to that, nothing says that the rest is
// written: a FinishError would.
func TestAFinishOfWhichAPartHasNoAnswerSaysSo(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("", "")
	jobs := b.take(2, 0)
	b.must(b.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Release()}))
	hook := &beforeStatement{}
	finisher := b.watched(hook, "complete")
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	hook.do = func() { hook.do = stop }
	lost := jobs[0].Lease().Complete(nil)
	lost.Add = []dibs.NewJob{{Kind: "k"}}
	err := finisher.Finish(ctx, []dibs.Outcome{lost, jobs[1].Lease().Complete(nil)})
	if !errors.Is(err, context.Canceled) || errors.As(err, new(*dibs.FinishError)) {
		t.Errorf("got %v, want only that the call was given up", err)
	}
	b.consistent()
}
