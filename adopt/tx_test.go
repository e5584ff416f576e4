package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
)

// ways are the three kinds of claims, on the same table.
func ways() map[string]adopt.Mapping {
	bare := adopt.Mapping{
		Table: "work", ID: adopt.Columns{"id"}, Order: adopt.Columns{"pri"}, Lease: time.Minute,
		Rows:      adopt.Rows{Unfinished: "ended is null", NotBefore: "nb"},
		Completed: adopt.Change{Set: adopt.Set{"ended": "$now"}},
		Dead:      &adopt.Change{Set: adopt.Set{"ended": "$now", "err": "$error"}},
	}
	side := bare
	side.SideTable = true
	token := bare
	token.Available = "mark is null"
	token.Claim = adopt.Claim{Token: "mark", Timeout: "until"}
	return map[string]adopt.Mapping{"lock": bare, "side": side, "token": token}
}

const workTable = `create table work (id integer primary key, pri integer not null, mark text, until timestamp, nb timestamp, ended timestamp, err text)`

func TestAClaimInATransactionEndsWithIt(t *testing.T) {
	for name, m := range ways() {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
				exec(t, db, workTable)
				for i := range 10 {
					exec(t, db, fmt.Sprintf(`insert into work (id, pri) values (%d, 0)`, i+1))
				}
				s, err := adopt.Open(t.Context(), db, m)
				if err != nil {
					t.Fatal(err)
				}
				open := func() *sql.Tx {
					tx, err := db.BeginTx(context.Background(), nil)
					if err != nil {
						t.Fatal(err)
					}
					if !pg {
						if _, err := tx.Exec("update work set pri = pri where id = -1"); err != nil { // take the write lock
							t.Fatal(err)
						}
					}
					return tx
				}
				claim := func(in *adopt.Tx, n int, want ...int64) []*dibs.RawJob {
					t.Helper()
					jobs, err := in.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: n})
					if err != nil {
						t.Fatal(err)
					}
					got := []int64{}
					for _, j := range jobs {
						got = append(got, j.ID)
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("claimed %v, want %v", got, want)
					}
					return jobs
				}

				tx := open()
				in := s.Tx(tx)
				jobs := claim(in, 2, 1, 2)
				claim(in, 1, 3) // not what it has already
				if pg {         // nobody waits
					other := open()
					claim(s.Tx(other), 2, 4, 5)
					_ = other.Rollback()
				}
				if err := in.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
					t.Fatal(err)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}

				tx = open()
				in = s.Tx(tx)
				jobs = claim(in, 3, 1, 2, 3)
				err = in.Finish(t.Context(), []dibs.Outcome{
					jobs[0].Lease().Complete(nil), jobs[1].Lease().RetryAfter(time.Hour, "later"), jobs[2].Lease().Die("never"),
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := in.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
					t.Errorf("finished twice: %v", err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
				tx = open()
				claim(s.Tx(tx), 10, 4, 5, 6, 7, 8, 9, 10)
				_ = tx.Rollback()
			})
		})
	}
}

func TestWhatOnlyALockHoldsNeedsATransaction(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, workTable)
		s, err := adopt.Open(t.Context(), db, ways()["lock"])
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: 1})
		var bad *dibs.InvalidError
		if !errors.As(err, &bad) || bad.Field != "claim" {
			t.Errorf("claim outside of a transaction: %v", err)
		}
	})
}
