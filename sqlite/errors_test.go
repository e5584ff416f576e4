package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
	"github.com/dibs-queue/dibs/storetest"
)

func TestErrorsOfAFileWithoutItsTablesAreOneSentence(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // nothing is left to write
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"job", "finished", "queue", "claim", "tally", "clock", "group_limit", "schedule", "unique_window", "worker", "audit"} {
		if _, err := db.ExecContext(t.Context(), "drop table dibs_"+table); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Refused(t, withoutTx{s})
}

// withoutTx is a store that makes a call in InTx.
type withoutTx struct{ *sqlite.Store }

func (s withoutTx) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return s.Store.InTx(ctx, func(tx dibs.Tx) error {
		_, err := tx.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}})
		return errors.Join(err, f(tx))
	})
}
