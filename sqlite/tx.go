package sqlite

import (
	"context"
	"database/sql"
	"errors"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// SQLTx is the store inside a transaction of the caller's: a *sql.Tx, or a value with its
// ExecContext and QueryContext, such as a transaction of sqlx or GORM. It must be on the
// same file: a transaction of DB, or of any other sql.DB of the same driver (open that with
// _txlock=immediate and a busy_timeout, or its first write may find the file locked). Calls
// in a transaction on another file, or in a read-only one of DB, are refused; the driver
// does not tell which transactions of another sql.DB are meant to be read-only. All other
// writes to the file wait until the transaction ends. Workers of this process learn of new
// jobs when Wake is called after the commit, or within milliseconds by themselves.
//
// If a context ends in the middle of a writing statement, or the disk is full, SQLite itself
// rolls the transaction back. The caller's later statements then run outside of it, each on
// its own, unless the transaction began with the same context as its statements: then they
// fail. Calls of the Tx do nothing then, and fail with sql.ErrTxDone.
func (s *Store) SQLTx(tx dibs.SQLTx) dibs.Tx { return s.common().SQLTx(tx) }

// InTx runs f in a transaction of its own, and commits it if f returns nil. f must use only
// its Tx to write: the store's own writing methods wait for the transaction to end.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	begin := func(ctx context.Context) (rowstore.OwnTx, error) { return s.begin(ctx) }
	return s.common().InTx(ctx, begin, f)
}

func (s *Store) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.callerPool.BeginTx(ctx, nil)
	return tx, s.failed(ctx, err)
}

// Open finds out whether SQLite has rolled a caller's transaction back, which
// database/sql does not learn: a savepoint would then begin a new transaction and its release
// commit it. So it runs "begin", which fails inside of a transaction and takes 2 µs.
func (e engine) Open(ctx context.Context, tx dibs.SQLTx, _ bool) error {
	_, err := tx.ExecContext(ctx, "begin")
	if err == nil {
		_, err = tx.ExecContext(ctx, "rollback")
		return errors.Join(rowstore.ErrRolledBack, err)
	}
	if code, ok := resultCode(err); !ok || code != sqlite3.SQLITE_ERROR {
		return err
	}
	return nil
}
