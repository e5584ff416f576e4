package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
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
func (s *Store) SQLTx(tx dibs.SQLTx) dibs.Tx {
	if s.common() == nil || checks.NoTx(tx) {
		return s.common().NewTx(nil, nil) // its calls say what is missing
	}
	return s.newTx(tx).Tx
}

func (s *Store) newTx(tx dibs.SQLTx) *callerTx {
	if p, ok := tx.(preparer); ok {
		tx = newPrepared(p)
	}
	t := &callerTx{store: s, conn: tx, session: rowstore.NewSession(context.Background(), tx, &s.sql.Dialect)}
	t.Tx = s.rows.NewTx(t.session, t.call)
	return t
}

// InTx runs f in a transaction of its own, and commits it if f returns nil. f must use only
// its Tx to write: the store's own writing methods wait for the transaction to end.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	if err := s.ready(ctx); err != nil {
		return wrap("transaction", err)
	}
	if err := checks.InTx(f); err != nil {
		return err
	}
	tx, err := s.callerPool.BeginTx(ctx, nil)
	if err != nil {
		return wrap("transaction", s.failed(ctx, err))
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	t := s.newTx(tx)
	t.verified = true
	if err := f(t.Tx); err != nil {
		if ctx.Err() != nil && errors.Is(err, sql.ErrTxDone) {
			return wrap("transaction", ctx.Err())
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return wrap("transaction", err)
	}
	t.Wake()
	return nil
}

// callerTx is a transaction of the caller's, in which the Tx works.
type callerTx struct {
	*rowstore.Tx
	store      *Store
	conn       dibs.SQLTx
	session    *rowstore.Session
	verified   bool // the transaction is on the store's file and may write
	rolledBack bool // a call has found that SQLite has rolled the transaction back
}

// call runs f as one call, under a savepoint: a call that fails changes nothing. The end of
// ctx does not break off the statements that begin and end the call.
func (t *callerTx) call(ctx context.Context, f func(*rowstore.Session) error) error {
	s, whole := t.session, context.WithoutCancel(ctx)
	if err := t.begin(whole); err != nil {
		return t.explainEnd(ctx, err)
	}
	before := s.Begin(ctx)
	err := t.verify(ctx)
	if err == nil {
		err = f(s)
	}
	if err == nil {
		err = s.WriteTally()
	}
	if err == nil {
		err = t.run(whole, "release dibs_call")
	}
	if err == nil {
		return nil
	}
	s.Reset(before)
	if t.run(whole, "rollback to dibs_call") != nil {
		t.rolledBack = true
		return t.explainEnd(ctx, fmt.Errorf("%w; %w", err, errRolledBack))
	}
	_ = t.run(whole, "release dibs_call") // the savepoint has been rolled back
	return err
}

func (t *callerTx) run(ctx context.Context, text string) error {
	_, err := t.conn.ExecContext(ctx, text)
	return err
}

var errRolledBack = fmt.Errorf("SQLite has rolled the transaction back: %w", sql.ErrTxDone)

// begin sets the savepoint of a call. If SQLite has rolled the transaction back, which
// database/sql does not learn, a savepoint would begin a new transaction and its release
// commit it. So it first runs "begin", which fails inside of a transaction and takes 2 µs.
func (t *callerTx) begin(ctx context.Context) error {
	if t.rolledBack {
		return errRolledBack
	}
	err := t.run(ctx, "begin")
	if err == nil {
		t.rolledBack = true
		return errors.Join(errRolledBack, t.run(ctx, "rollback"))
	}
	if code, ok := resultCode(err); !ok || code != sqlite3.SQLITE_ERROR {
		return err
	}
	return t.run(ctx, "savepoint dibs_call")
}

// explainEnd returns sql.ErrTxDone, or the context's error, if err comes from the end of the
// transaction: database/sql only says that its statements are closed.
func (t *callerTx) explainEnd(ctx context.Context, err error) error {
	rows, now := t.conn.QueryContext(context.WithoutCancel(ctx), "select 1")
	switch {
	case now == nil:
		_ = rows.Close() // only a probe
		return err
	case !errors.Is(now, sql.ErrTxDone):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return now
}
