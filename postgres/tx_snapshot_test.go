package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// A transaction with one snapshot that is older than the last extension of a lease cannot finish the job. The error
// says so; it does not say that the lease is lost.
func TestFinishingUnderAnOldSnapshotSaysWhy(t *testing.T) {
	needs.Race(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for name, ended := range map[string]bool{"the lease that it sees has ended": true, "the lease that it sees lasts": false} {
			t.Run(string(level)+", "+name, func(t *testing.T) {
				b := newBench(t, postgres.Options{})
				begin := func() pgx.Tx {
					tx, err := b.pool.BeginTx(b.ctx, pgx.TxOptions{IsoLevel: level})
					b.must(err)
					_, err = tx.Exec(b.ctx, "select count(*) from dibs.job") // this takes the snapshot
					b.must(err)
					return tx
				}
				lease := time.Minute
				if ended {
					lease = dibs.MinLease
				}
				var tx pgx.Tx
				var leases []dibs.Lease
				for len(leases) < 2 { // until the machine is quick enough to extend the shortest lease
					_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Kind: "k"}, {Kind: "k"}})
					b.must(err)
					jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Worker: "w", N: 2, Lease: time.Minute})
					b.must(err)
					leases = []dibs.Lease{jobs[0].Lease(), jobs[1].Lease()}
					_, err = b.Store.Extend(b.ctx, leases, lease)
					b.must(err)
					tx = begin()
					got, err := b.Store.Extend(b.ctx, leases, time.Minute)
					b.must(err)
					if len(got.Lost) > 0 {
						b.must(tx.Rollback(b.ctx))
						leases = nil
					}
				}
				if ended {
					time.Sleep(2 * dibs.MinLease)
				}
				err := b.Tx(tx).Finish(b.ctx, []dibs.Outcome{leases[0].Complete(nil)})
				var bad *dibs.InvalidError
				switch {
				case level == pgx.ReadCommitted:
					b.must(err)
					b.must(tx.Commit(b.ctx))
					return
				case !errors.As(err, &bad) || bad.Field != "transaction" || !strings.Contains(bad.Reason, "READ COMMITTED") || errors.Is(err, dibs.ErrLeaseLost):
					t.Errorf("finished: %v", err)
				}
				b.must(tx.Rollback(b.ctx))
				tx = begin() // the new transaction begins when the work is done
				b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{leases[0].Complete(nil)}))
				b.must(tx.Commit(b.ctx))
				tx = begin()
				b.must(b.Finish(b.ctx, []dibs.Outcome{leases[1].Complete(nil)}))
				if err := b.Tx(tx).Finish(b.ctx, []dibs.Outcome{leases[1].Complete(nil)}); errors.As(err, &bad) {
					t.Errorf("a lease that is lost: %v", err)
				}
				b.must(tx.Rollback(b.ctx))
			})
		}
	}
}
