package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Jobs enqueued in a read-only transaction, or in another file, would be lost silently.
func TestTransactionsThatAreNotTheStoresAreRefused(t *testing.T) {
	t.Parallel()
	s, other := openStore(t, sqlite.Options{}), openStore(t, sqlite.Options{})
	for _, c := range []struct {
		name string
		tx   *sql.Tx
	}{
		{"nil", nil},
		{"read-only", beginOn(t, s.DB(), &sql.TxOptions{ReadOnly: true})},
		{"on another file", beginOn(t, other.DB(), nil)},
	} {
		tx := s.SQLTx(c.tx)
		for verb, call := range map[string]func() error{
			"Enqueue": func() error { _, err := tx.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); return err },
			"Claim": func() error {
				_, err := tx.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
				return err
			},
			"Finish": func() error {
				return tx.Finish(t.Context(), []dibs.Outcome{dibs.Lease{ID: 1, Token: dibs.Token{1}}.Complete(nil)})
			},
		} {
			var invalid *dibs.InvalidError
			if err := call(); !errors.As(err, &invalid) || invalid.Field != "tx" {
				t.Errorf("%s in a transaction that is %s: %v", verb, c.name, err)
			}
		}
		if c.tx != nil {
			if err := c.tx.Commit(); err != nil {
				t.Error(err)
			}
		}
	}
	// After a read-only transaction its connection writes again.
	if _, err := s.DB().ExecContext(t.Context(), "create table effect (job)"); err != nil {
		t.Error(err)
	}
}

func beginOn(t *testing.T, db *sql.DB, o *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func TestAReadOnlyTransactionCannotWrite(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	tx := beginOn(t, s.DB(), &sql.TxOptions{ReadOnly: true})
	if _, err := tx.ExecContext(t.Context(), "create table effect (job)"); err == nil {
		t.Error("it has written")
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

// A transaction may be on the same file under another name.
func TestATransactionOnTheFileByALinkIsTheStores(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SQLite does not follow links there: the transaction is refused")
	}
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tx := beginOn(t, db, nil)
	if _, err := s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
}
