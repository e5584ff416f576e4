package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// If Extend returns neither an error nor the job in Lost, the lease was extended, or it is
// not needed any more.
func TestExtendSaysWhatItDidThoughRowsAreLocked(t *testing.T) {
	needs.Race(t)
	t.Run("by a transaction that finishes the job", func(t *testing.T) {
		for name, outcome := range map[string]func(dibs.Lease) dibs.Outcome{
			"completed": func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) },
			"retried":   func(l dibs.Lease) dibs.Outcome { return l.Retry("e") },
		} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, postgres.Options{})
				b.add("", "")
				jobs := b.take(2, 0)
				tx := b.begin()
				b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{outcome(jobs[0].Lease())}))
				e, err := b.Extend(b.ctx, []dibs.Lease{jobs[0].Lease(), jobs[1].Lease()}, time.Hour)
				if err != nil || len(e.Lost) > 0 || len(e.Finishing) != 1 || e.Finishing[0] != jobs[0].ID {
					t.Errorf("%+v, %v", e, err)
				}
				b.leaseEndsIn(jobs[1], time.Hour)
				b.must(tx.Commit(b.ctx))
				e, err = b.Extend(b.ctx, []dibs.Lease{jobs[0].Lease()}, time.Hour)
				if err != nil || len(e.Lost) != 1 {
					t.Errorf("after the commit: %+v, %v", e, err)
				}
			})
		}
	})
	t.Run("by anything else", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.add("", "")
		jobs := b.take(2, 0)
		tx := b.begin()
		_, err := tx.Exec(b.ctx, "update dibs.job set priority = priority where id = $1", jobs[0].ID)
		b.must(err)
		leases := []dibs.Lease{jobs[0].Lease(), jobs[1].Lease()}
		if e, err := b.Extend(b.ctx, leases, time.Hour); !errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("it says that all went well: %+v, %v", e, err)
		}
		b.leaseEndsIn(jobs[1], time.Hour)
		b.must(tx.Rollback(b.ctx))
		if e, err := b.Extend(b.ctx, leases, 2*time.Hour); err != nil || len(e.Lost) > 0 {
			t.Errorf("after the rollback: %+v, %v", e, err)
		}
		b.leaseEndsIn(jobs[0], 2*time.Hour)
	})
	t.Run("for a moment", func(t *testing.T) {
		b := newBench(t, postgres.Options{})
		b.add("")
		jobs := b.take(1, 0)
		tx := b.begin()
		_, err := tx.Exec(b.ctx, "update dibs.job set priority = priority where id = $1", jobs[0].ID)
		b.must(err)
		rolledBack := make(chan error)
		time.AfterFunc(100*time.Millisecond, func() { rolledBack <- tx.Rollback(b.ctx) })
		defer func() { b.must(<-rolledBack) }()
		e, err := b.Extend(b.ctx, []dibs.Lease{jobs[0].Lease()}, time.Hour)
		if err == nil && len(e.Lost) == 0 {
			b.leaseEndsIn(jobs[0], time.Hour)
		} else if !errors.Is(err, dibs.ErrUnavailable) { // on a busy machine the rollback came too late
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// A claim has seen the job waiting; before it locks the row, another claim takes the job.
func TestTheLockOfAClaimThatCameTooLateIsNoFinish(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	b.add("")
	other, err := postgres.New(b.ctx, b.pool, postgres.Options{})
	b.must(err)
	t.Cleanup(func() { _ = other.Close() }) // never fails
	const turn = "with turn as materialized (\n    select queue"
	barrier, late := b.barrier(other, "claim", turn+"\n", turn+", pg_advisory_xact_lock(1)\n"), b.begin()
	end := b.beside(1, func() error {
		jobs, err := other.Tx(late).Claim(b.ctx, request(1))
		if len(jobs) > 0 {
			t.Errorf("job %d was claimed twice", jobs[0].ID)
		}
		return err
	})
	leases := []dibs.Lease{b.take(1, 0)[0].Lease()}
	b.must(barrier.Rollback(b.ctx))
	b.must(end())
	if e, err := b.Extend(b.ctx, leases, time.Hour); !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("nobody finishes the job, nor was it extended, and the answer is %+v, %v", e, err)
	}
	b.must(late.Rollback(b.ctx))
	if e, err := b.Extend(b.ctx, leases, time.Hour); err != nil || len(e.Lost) > 0 {
		t.Errorf("after the rollback: %+v, %v", e, err)
	}
}

// held.sql treats a lock for update as a finish.
func TestOnlyAFinishLocksAJobForUpdate(t *testing.T) {
	b := newBench(t, postgres.Options{})
	var found []string
	b.Rewrite(func(name, text string) string {
		if strings.Contains(text, "for update") && strings.Contains(text, ".job") {
			found = append(found, name)
		}
		return text
	})
	slices.Sort(found)
	// delete, prune and retention lock jobs that have ended, and only look at live ones. put_step keeps the end of a job away
	// from its step: while its transaction is open, the lease cannot be extended.
	if want := []string{"delete", "prune", "put_step", "retention", "retry"}; !slices.Equal(found, want) {
		t.Errorf("statements that lock jobs for update: %v, want %v", found, want)
	}
}

// leaseEndsIn fails unless the job's lease ends about d from now.
func (b *bench) leaseEndsIn(j *dibs.RawJob, d time.Duration) {
	b.Helper()
	now, err := b.Get(b.ctx, j.ID)
	b.must(err)
	if left := time.Until(now.LeaseUntil); left < d-time.Minute || left > d+time.Minute {
		b.Errorf("job %d: its lease ends in %v, want %v", j.ID, left, d)
	}
}
