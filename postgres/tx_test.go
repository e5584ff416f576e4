package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// takeIn claims in a transaction, through a Tx of its own.
func (b bench) takeIn(tx pgx.Tx, n int) []*dibs.RawJob {
	b.Helper()
	jobs, err := b.Tx(tx).Claim(b.ctx, request(n))
	b.must(err)
	return jobs
}

// A savepoint gives a job back; then another worker claims and completes it.
func TestATokenThatASavepointUndidChangesNothing(t *testing.T) {
	for _, keep := range []time.Duration{time.Hour, 0} {
		t.Run(fmt.Sprint("kept for ", keep), func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			b.change(dibs.QueueChange{KeepCompleted: new(keep)})
			b.add("")
			tx := b.begin()
			execute(t, tx.Conn(), "savepoint before")
			undone := b.takeIn(tx, 1)
			execute(t, tx.Conn(), "rollback to savepoint before")
			taken := b.take(1, time.Minute)
			b.must(b.Finish(b.ctx, []dibs.Outcome{taken[0].Lease().Complete([]byte(`"r"`))}))
			err := b.Tx(tx).Finish(b.ctx, []dibs.Outcome{undone[0].Lease().RetryAfter(0, "e")})
			if !errors.Is(err, dibs.ErrLeaseLost) {
				t.Fatalf("keep %v: a claim that was undone is finished with error %v", keep, err)
			}
			b.must(tx.Commit(b.ctx))
			j, err := b.Get(b.ctx, undone[0].ID)
			if keep == 0 && !errors.Is(err, dibs.ErrNotFound) || keep > 0 && (err != nil || j.State != dibs.Completed || string(j.Result) != `"r"`) {
				t.Fatalf("keep %v: after a stale finish there is %+v, %v", keep, j, err)
			}
			b.consistent()
		})
	}
}

// Rolling back to a savepoint undoes a transaction's claims and finishes, and so its part in
// the count of a limited queue.
func TestASavepointUndoesWhatTheTransactionHolds(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.change(dibs.QueueChange{Concurrency: new(2)})
	b.add("", "", "")
	tx := b.begin()
	first := b.takeIn(tx, 1)
	execute(t, tx.Conn(), "savepoint before")
	if got := b.takeIn(tx, 3); len(got) != 1 {
		t.Fatalf("%d jobs beside one, of 2", len(got))
	}
	execute(t, tx.Conn(), "rollback to savepoint before")
	b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{first[0].Lease().RetryAfter(time.Hour, "e")}))
	if got := b.takeIn(tx, 3); len(got) != 2 {
		t.Fatalf("%d jobs, of 2", len(got))
	}
	execute(t, tx.Conn(), "rollback to savepoint before")
	if got := b.takeIn(tx, 3); len(got) != 1 {
		t.Fatalf("%d jobs beside one whose finish was undone, of 2", len(got))
	}
	b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{first[0].Lease().Die("e")}))
	b.must(tx.Commit(b.ctx))
	j, err := b.Get(b.ctx, first[0].ID)
	if err != nil || j.State != dibs.Dead {
		t.Fatalf("a job that was finished otherwise after a savepoint is %+v, %v", j, err)
	}
}

// An older snapshot shows neither what runs nor that a limit is set meanwhile.
func TestAClaimNeedsAViewOfWhatIsCommitted(t *testing.T) {
	for name, limit := range map[string]int{"without a limit": 0, "with a limit": 1, "of a group": 0} {
		t.Run(name, func(t *testing.T) {
			group := ""
			if name == "of a group" {
				group = "g"
			}
			b := newBench(t, postgres.Options{})
			if limit > 0 {
				b.change(dibs.QueueChange{Concurrency: &limit})
			}
			b.add(group)
			for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable, pgx.ReadUncommitted} {
				tx := b.beginAs(level)
				jobs, err := b.Tx(tx).Claim(b.ctx, request(1))
				var invalid *dibs.InvalidError
				if level == pgx.ReadUncommitted {
					if err != nil || len(jobs) != 1 {
						t.Fatalf("group %q, %s: %d jobs, %v", group, level, len(jobs), err)
					}
				} else if !errors.As(err, &invalid) || invalid.Field != "transaction" {
					t.Fatalf("group %q, %s: %d jobs, %v", group, level, len(jobs), err)
				}
				b.must(tx.Rollback(b.ctx))
			}
		})
	}
}

// The store's own transactions do not depend on the database's default.
func TestTheDatabasesDefaultIsolationDoesNotMatter(t *testing.T) {
	t.Parallel()
	first, url := migrated(t, postgres.Options{})
	ctx := t.Context()
	if _, err := first.ChangeQueue(ctx, "q", dibs.QueueChange{Concurrency: new(1)}.Apply); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	execute(t, conn, fmt.Sprintf("alter database %s set default_transaction_isolation = 'repeatable read'", pgx.Identifier{conn.Config().Database}.Sanitize()))
	stores := map[string]*postgres.Store{
		"Open": opened(t, url, postgres.Options{}), "Open behind a pooler": opened(t, url, postgres.Options{Pooler: true}),
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s, err := postgres.New(ctx, pool, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		stores["New, "+mode.String()] = s
	}
	for name, s := range stores {
		claim := func(claim func(context.Context, dibs.ClaimRequest) ([]*dibs.RawJob, error)) []*dibs.RawJob {
			t.Helper()
			if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}}); err != nil {
				t.Fatal(err)
			}
			jobs, err := claim(ctx, request(1))
			if err != nil || len(jobs) != 1 {
				t.Fatalf("%s: claimed %d jobs, %v", name, len(jobs), err)
			}
			return jobs
		}
		err := s.InTx(ctx, func(tx dibs.Tx) error {
			return tx.Finish(ctx, []dibs.Outcome{claim(tx.Claim)[0].Lease().Complete(nil)})
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Finish(ctx, []dibs.Outcome{claim(s.Claim)[0].Lease().Complete(nil)}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
}

// After an error within a batch, its connection goes back to the pool in good order.
func TestARefusedFinishKeepsTheCallersConnection(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("")
	s, err := postgres.New(b.ctx, b.pool, postgres.Options{})
	b.must(err)
	t.Cleanup(func() { s.Close() })
	jobs := b.take(1, time.Minute)
	holder := b.begin()
	execute(t, holder.Conn(), "select from dibs.job for update")
	_, err = s.Get(b.ctx, jobs[0].ID) // opens the connection that the others will get
	b.must(err)
	before := b.pool.Stat().NewConnsCount()
	var unwritten *dibs.FinishError
	if err := s.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); !errors.As(err, &unwritten) {
		t.Fatalf("finished a locked job with error %v", err)
	}
	b.must(holder.Rollback(b.ctx))
	b.must(s.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
	if after := b.pool.Stat().NewConnsCount(); after != before {
		t.Fatalf("%d connections were made anew", after-before)
	}
}
