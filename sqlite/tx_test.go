package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// database/sql rolls a transaction back when its context ends, and for later calls only says
// that its statements are closed.
func TestACallInATransactionWhoseContextHasEndedSaysSo(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	jobs := []dibs.NewJob{{Kind: "k"}}
	ctx, cancel := context.WithCancel(t.Context())
	var inner error
	err := s.InTx(ctx, func(tx dibs.Tx) error {
		if _, err := tx.Enqueue(ctx, jobs); err != nil {
			t.Error(err)
		}
		cancel()
		eventually(t, "the transaction is rolled back", func() bool {
			_, inner = tx.Enqueue(t.Context(), jobs)
			return inner != nil
		})
		return inner
	})
	if !errors.Is(inner, sql.ErrTxDone) || !errors.Is(err, context.Canceled) {
		t.Errorf("the call was told %v, and the transaction %v", inner, err)
	}
	if left := kinds(t, s); len(left) != 0 {
		t.Errorf("jobs were left: %v", left)
	}
}

// endlessView makes statements that last until they are interrupted: those on the view
// endless, and enqueueing a job of the kind "endless".
const endlessView = `
create table effect (n int);
create view endless as with recursive n(i) as (select 1 union all select i + 1 from n) select i from n;
create trigger endless after insert on dibs_job when new.kind = 'endless' begin
	insert into effect select count(*) from endless;
end`

// interruptStatement runs f with contexts that end, until one ends in the middle of a statement.
func interruptStatement(t *testing.T, tx *sql.Tx, f func(context.Context) error) error {
	t.Helper()
	for wait := time.Millisecond; ; wait *= 2 {
		if _, err := tx.Exec("savepoint there"); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), wait)
		err := f(ctx)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("what does not end by itself ended with %v", err)
		}
		if _, gone := tx.Exec("release there"); gone != nil {
			return err
		}
	}
}

// SQLite rolls a whole transaction back when a writing statement is interrupted or the disk
// is full, and database/sql does not learn of it. A savepoint would then begin a new
// transaction, and its release commit it.
func TestWhatSQLiteHasRolledBackIsNotCommittedByALaterCall(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *sql.Tx, dibs.Tx){
		"a statement of the caller's is cut off": func(t *testing.T, tx *sql.Tx, _ dibs.Tx) {
			_ = interruptStatement(t, tx, func(ctx context.Context) error {
				_, err := tx.ExecContext(ctx, "insert into effect select count(*) from endless")
				return err
			})
		},
		"a call is cut off": func(t *testing.T, tx *sql.Tx, d dibs.Tx) {
			err := interruptStatement(t, tx, func(ctx context.Context) error {
				_, err := d.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}, {Kind: "endless"}})
				return err
			})
			rolledBack(t, "the call that was cut off", err)
		},
		"the disk is full": func(t *testing.T, tx *sql.Tx, _ dibs.Tx) {
			if _, err := tx.Exec("pragma max_page_count = 60"); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("insert into effect values (zeroblob(500000))"); err == nil {
				t.Fatal("the disk was not full")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loseTransaction(t, lose)
		})
	}
}

func loseTransaction(t *testing.T, lose func(*testing.T, *sql.Tx, dibs.Tx)) {
	s := openStore(t, sqlite.Options{})
	if _, err := s.DB().Exec(endlessView); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "held"}, {Kind: "due"}}); err != nil {
		t.Fatal(err)
	}
	held, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1, Kinds: []string{"held"}, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	tx, d := begin(t, s)
	if _, err := tx.Exec("insert into effect values (1)"); err != nil {
		t.Fatal(err)
	}
	lose(t, tx, d)
	calls := func(d dibs.Tx) {
		_, err := d.Enqueue(t.Context(), []dibs.NewJob{{Kind: "after"}})
		rolledBack(t, "Enqueue", err)
		_, err = d.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
		rolledBack(t, "Claim", err)
		rolledBack(t, "Finish", d.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}))
	}
	calls(d)
	if _, err := tx.Exec("savepoint mine"); err != nil { // this begins a transaction
		t.Fatal(err)
	}
	calls(d)
	if err := tx.Commit(); err != nil {
		t.Error(err) // a rollback of the transaction that the caller's savepoint began
	}
	if n := kinds(t, s); n["held"] != 1 || n["due"] != 1 || len(n) != 2 {
		t.Errorf("jobs: %v", n)
	}
	var effects int
	if err := s.DB().QueryRow("select count(*) from effect").Scan(&effects); err != nil || effects != 0 {
		t.Errorf("%d effects, %v", effects, err)
	}
	if err := s.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}); err != nil {
		t.Errorf("the job is not held any more: %v", err)
	}
}

func rolledBack(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, sql.ErrTxDone) || !strings.Contains(err.Error(), "the database has rolled the transaction back") {
		t.Errorf("%s gave %v", what, err)
	}
}

func begin(t *testing.T, s *sqlite.Store) (*sql.Tx, dibs.Tx) {
	t.Helper()
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // does nothing after the end
	return tx, s.SQLTx(tx)
}
