package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/needs"
)

// ways holds mappings of the same table for the three kinds of claims.
func ways() map[string]mapping.Mapping {
	bare := mapping.Mapping{
		Table: "work", ID: mapping.Columns{"id"}, Order: mapping.Columns{"pri"}, Lease: time.Minute,
		Rows:      mapping.Rows{Unfinished: "ended is null", NotBefore: "nb"},
		Completed: mapping.Change{Set: mapping.Set{"ended": "$now"}},
		Dead:      &mapping.Change{Set: mapping.Set{"ended": "$now", "err": "$error"}},
	}
	side := bare
	side.SideTable = true
	token := bare
	token.Available = "mark is null"
	token.Claim = mapping.Claim{Token: "mark", Timeout: "until"}
	return map[string]mapping.Mapping{"lock": bare, "side": side, "token": token}
}

const workTable = `create table work (id integer primary key, pri integer not null, mark text, until timestamp, nb timestamp, ended timestamp, err text)`

// begin begins a transaction that can write.
func begin(t *testing.T, db *sql.DB, pg bool) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !pg {
		if _, err := tx.Exec("update work set pri = pri where id = -1"); err != nil { // takes the write lock
			t.Fatal(err)
		}
	}
	return tx
}

// takeIn does the same as take, in a transaction.
func takeIn(t *testing.T, inTx *adopt.Tx, n int, want ...int64) []*dibs.RawJob {
	t.Helper()
	jobs, err := inTx.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: n})
	if err != nil {
		t.Fatal(err)
	}
	return these(t, jobs, want)
}

func TestAClaimInATransactionEndsWithIt(t *testing.T) {
	for name, m := range ways() {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				exec(t, db, workTable)
				exec(t, db, `insert into work (id, pri) values (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)`)
				s := opened(t, db, m)
				rollBack(t, s, db, pg)
				commit(t, s, db, pg)
			})
		})
	}
}

// rollBack claims and finishes in a transaction that is rolled back.
func rollBack(t *testing.T, s *adopt.Store, db *sql.DB, pg bool) {
	tx := begin(t, db, pg)
	inTx := s.SQLTx(tx)
	jobs := takeIn(t, inTx, 2, 1, 2)
	takeIn(t, inTx, 1, 3) // without the rows that the transaction already has
	if pg {               // other claims do not wait
		other := begin(t, db, pg)
		takeIn(t, s.SQLTx(other), 2, 4, 5)
		_ = other.Rollback() // the test keeps no changes of this transaction
	}
	if err := inTx.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

// commit finds all rows as they were before, and finishes three rows in three ways.
func commit(t *testing.T, s *adopt.Store, db *sql.DB, pg bool) {
	tx := begin(t, db, pg)
	inTx := s.SQLTx(tx)
	jobs := takeIn(t, inTx, 3, 1, 2, 3)
	err := inTx.Finish(t.Context(), []dibs.Outcome{
		jobs[0].Lease().Complete(nil), jobs[1].Lease().RetryAfter(time.Hour, "later"), jobs[2].Lease().Die("never"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inTx.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Errorf("finished twice: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, db, pg)
	takeIn(t, s.SQLTx(tx), 10, 4, 5, 6)
	_ = tx.Rollback() // the test keeps no changes of this transaction
}

func TestWhatOnlyALockHoldsNeedsATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, workTable)
		s := opened(t, db, ways()["lock"])
		_, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: 1})
		var bad *dibs.InvalidError
		if !errors.As(err, &bad) || bad.Field != "claim" {
			t.Errorf("claim outside of a transaction: %v", err)
		}
	})
}

func TestGoroutinesShareATransaction(t *testing.T) {
	needs.Race(t)
	for name, m := range ways() {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				const rows = 12
				exec(t, db, workTable)
				for id := 1; id <= rows; id++ {
					exec(t, db, fmt.Sprintf("insert into work (id, pri) values (%d, 0)", id))
				}
				s := opened(t, db, m)
				tx := begin(t, db, pg)
				in := s.SQLTx(tx)
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() {
						for range rows / 3 {
							jobs, err := in.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: 1})
							if err != nil || len(jobs) != 1 {
								t.Errorf("claimed %d rows: %v", len(jobs), err)
								return
							}
							if err := in.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
								t.Error(err)
							}
						}
					})
				}
				group.Wait()
				takeIn(t, in, rows) // each was claimed by one of them, and is finished
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// What a transaction has finished is held again after a rollback, in the process that claimed
// it, whatever ids the table has.
func TestAFinishThatIsRolledBackLosesNoLease(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, `create table work (id varchar(9) primary key, status text not null default 'new', pri int not null default 0)`)
		exec(t, db, `insert into work (id) values ('a'), ('b')`)
		m := sided()
		m.Lease = time.Hour
		s := opened(t, db, m)
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: s.Queue(), Worker: "w", N: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("claimed %d rows: %v", len(jobs), err)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := s.SQLTx(tx)
		if err := in.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Die("e")}); err != nil {
			t.Fatalf("after the rollback: %v", err)
		}
		if job, err := s.Get(t.Context(), jobs[0].ID); err != nil || job.State != dibs.Dead {
			t.Fatalf("a dead row is %+v, %v", job, err)
		}
		if ids, err := s.Requeue(t.Context(), []int64{jobs[0].ID, 1<<62 + 17}); err != nil || !slices.Equal(ids, []int64{jobs[0].ID}) {
			t.Fatalf("put back %v, %v", ids, err)
		}
		if ids, err := s.Requeue(t.Context(), []int64{1<<62 + 17}); err != nil || len(ids) != 0 {
			t.Fatalf("put back %v, %v", ids, err)
		}
	})
}

func TestATransactionThatIsNoneIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, workTable)
		s := opened(t, db, ways()["side"])
		for _, none := range []dibs.SQLTx{nil, (*sql.Tx)(nil), db} {
			in := s.SQLTx(none)
			_, claimErr := in.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: 1})
			finishErr := in.Finish(t.Context(), []dibs.Outcome{dibs.Lease{ID: 1, Token: dibs.Token{1}}.Complete(nil)})
			for _, err := range []error{claimErr, finishErr} {
				var invalid *dibs.InvalidError
				if !errors.As(err, &invalid) || invalid.Field != "tx" {
					t.Errorf("%T: %v", none, err)
				}
			}
		}
	})
}
