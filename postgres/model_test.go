package postgres

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// TestModel compares the store with the reference model. The long form:
//
//	DIBS_SOAK=1 go test ./postgres -run '^TestModel$' -v -timeout 0
func TestModel(t *testing.T) {
	t.Parallel()
	model.Check(t, modelDatabases(t))
}

// modelDatabases empties one database for each run. Its store stays, since new
// connections would plan every statement anew.
func modelDatabases(t testing.TB) model.Maker {
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	var s *Store
	another := func() (_ admin.Database, err error) {
		if s != nil {
			err = s.Close()
		}
		if err == nil {
			s, err = Open(t.Context(), url, Options{MaxConns: 2})
		}
		if err == nil {
			s.SettleNever()
		}
		return exact{s}, err
	}
	if _, err := another(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return func(t model.TB) model.Database {
		if _, err := s.pool.Exec(t.Context(), "delete from dibs.job; delete from dibs.payload; delete from dibs.finished; delete from dibs.claim; "+
			"delete from dibs.queue; delete from dibs.turn; delete from dibs.group_limit; delete from dibs.wake; delete from dibs.wake_list; delete from dibs.tally; delete from dibs.history; delete from dibs.unique_window; "+
			"delete from dibs.edge; delete from dibs.ended_list"); err != nil {
			t.Fatalf("%v", err)
		}
		s.queues.init()
		return model.Database{
			Database: exact{s}, Lazy: true, AtOnce: true, Another: another,
			Pass: func(d time.Duration) error { return pass(s, d) },
		}
	}
}

// exact is a store that does not depend on how long a test takes: each sweep prunes, claims, however slow, look at the
// whole queue, and jobs that come after others are looked at before a call returns.
type exact struct{ *Store }

func (e exact) Sweep(ctx context.Context) (dibs.Swept, error) {
	e.sweeper.prunedAt = time.Time{}
	return e.Store.Sweep(ctx)
}

// settled settles what a call has left to the store's goroutine.
func (e exact) settled(ctx context.Context, err error) error {
	_, unsettled := e.settleRounds(ctx, e.upkeep, untilDone)
	return cmp.Or(err, unsettled)
}

func (e exact) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	done, err := e.Store.Enqueue(ctx, jobs)
	return done, e.settled(ctx, err)
}

func (e exact) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return e.settled(ctx, e.Store.Finish(ctx, outcomes))
}

func (e exact) Cancel(ctx context.Context, ids []int64) (ended, asked []int64, err error) {
	ended, asked, err = e.Store.Cancel(ctx, ids)
	return ended, asked, e.settled(ctx, err)
}

func (e exact) Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error) {
	done, err := e.Store.Requeue(ctx, ids, until)
	return done, e.settled(ctx, err)
}

func (e exact) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return e.settled(ctx, e.Store.InTx(ctx, f))
}

func (e exact) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	e.queues.lanesOf(r.Queue).forget()
	return e.Store.Claim(ctx, r)
}

// pass lets d pass, an hour or more. No statistics reach back to the history before it.
func pass(s *Store, d time.Duration) error {
	_, err := s.pool.Exec(context.Background(), "delete from dibs.history")
	return errors.Join(err, Pass(context.Background(), d, s))
}

// A sweep gives places to the jobs that it has released, though nothing else has changed in their queue.
func TestASweepGivesPlacesToJobsThatItReleases(t *testing.T) {
	t.Parallel()
	r := model.Start(t, modelDatabases(t))
	r.Enqueue(dibs.NewJob{Queue: "b", Kind: "k1"})
	r.Enqueue(dibs.NewJob{Queue: "a", Kind: "k2", Group: "h", After: []dibs.Dep{{ID: 1, On: dibs.NeedFailed}}})
	r.Claim(dibs.ClaimRequest{Queue: "b", Worker: "w", N: 1, Lease: time.Hour})
	r.Cancel(1)
	r.Sweep()
	r.Same()
	r.Pass(2 * time.Hour)
	r.Sweep()
	r.Same()
}
