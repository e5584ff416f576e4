package mysql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// TestTransactionsWithAnotherIsolationAreRefused also begins many that are right at once, beside those that are wrong and
// still open.
func TestTransactionsWithAnotherIsolationAreRefused(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s := openStore(t, address)
	db := callers(t, address)
	enqueue := func(level sql.IsolationLevel) (*sql.Tx, error) {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = tx.Rollback() }) // it may have been committed
		_, err = s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
		return tx, err
	}
	for _, level := range []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for range 4 {
			var invalid *dibs.InvalidError
			if _, err := enqueue(level); !errors.As(err, &invalid) || invalid.Field != "tx" {
				t.Fatalf("in %v: %v", level, err) // the next ones would wait for this one
			}
		}
	}
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted} {
		var all errgroup.Group
		for range 50 {
			all.Go(func() error {
				tx, err := enqueue(level)
				if err == nil {
					err = tx.Commit()
				}
				return err
			})
		}
		if err := all.Wait(); err != nil {
			t.Errorf("in %v: %v", level, err)
		}
	}
	besideOneThatHoldsItsGap(t, db, s)
	if got, err := s.Stats(t.Context()); err != nil || got[0].Waiting != 101 {
		t.Errorf("the database has %+v, %v", got, err)
	}
	session, err := sql.Open("mysql", address) // the server's default is REPEATABLE READ
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tx, err := session.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if _, err := s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err == nil || !strings.Contains(err.Error(), "in a session with isolation REPEATABLE-READ") {
		t.Errorf("in a session in REPEATABLE READ: %v", err)
	}
	var rows int
	if err := db.QueryRow("select count(*) from dibs_turn where what in ('gap', 'uncommitted')").Scan(&rows); err != nil || rows != 65 {
		t.Errorf("dibs_turn has %d rows around gaps, %v", rows, err)
	}
}

// besideOneThatHoldsItsGap enqueues a job in a transaction while another one, in REPEATABLE READ, has locked the gap in
// which this one looks first.
func besideOneThatHoldsItsGap(t *testing.T, db *sql.DB, s *mysql.Store) {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it may have been committed
	var id int
	if err := tx.QueryRow("select connection_id() % 64").Scan(&id); err != nil {
		t.Fatal(err)
	}
	other, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback() //nolint:errcheck // nothing was written
	if err := other.QueryRow("select count(*) from dibs_turn where what = 'gap' and queue = ? for update", fmt.Sprintf("%02X+", id)).Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Errorf("beside a transaction that holds the gap: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
