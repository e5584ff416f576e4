package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// SQLTx is the store inside a transaction of the caller's: a *sql.Tx, or a value with its
// ExecContext and QueryContext, such as a transaction of sqlx or GORM. It must be on the same database and
// have the isolation READ COMMITTED, as those of DB do. The first call of the Tx looks, and refuses any other,
// whether the session has it or only this transaction, as by sql.TxOptions.Isolation.
//
// A deadlock with another transaction, or a lock for which the transaction waits too long, may end the whole transaction:
// then calls of the Tx do nothing, and fail with sql.ErrTxDone.
func (s *Store) SQLTx(tx dibs.SQLTx) dibs.Tx { return s.common().SQLTx(tx) }

// InTx runs f in a transaction of its own, and commits it if f returns nil. If the connection is lost at the commit, the
// error is dibs.ErrUnavailable, and says that nobody knows whether the transaction took effect.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return s.common().InTx(ctx, s.begin, f)
}

func (s *Store) begin(ctx context.Context) (rowstore.OwnTx, error) {
	for {
		n := s.any()
		tx, err := s.beginOwn(ctx)
		if err == nil {
			return tx, nil
		}
		if ctx.Err() != nil || !s.lost(n, err) {
			return nil, s.failed(ctx, err)
		}
	}
}

func (s *Store) beginOwn(ctx context.Context) (tx ownTx, err error) {
	c, err := s.callers.Conn(ctx)
	if err != nil {
		return tx, err
	}
	own, err := c.BeginTx(ctx, nil)
	if err != nil {
		_ = c.Close() // the error says what went wrong
		return tx, err
	}
	return ownTx{own, c, ctx}, nil
}

// ownTx is a transaction of InTx.
type ownTx struct {
	*sql.Tx
	conn *sql.Conn
	ctx  context.Context
}

// Commit commits. A transaction whose commit the server has refused may still be open, and the next one to begin on its
// connection would commit it: so the connection is closed.
func (t ownTx) Commit() error {
	defer t.conn.Close() // an error is ignored: the transaction has ended
	err := t.Tx.Commit()
	if err == nil || t.ctx.Err() != nil && (errors.Is(err, sql.ErrTxDone) || errors.Is(err, t.ctx.Err())) {
		return err // the transaction was rolled back when the context ended, so no commit was sent
	}
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	return explainCommit(err)
}

// Rollback ends the transaction without effect, unless Commit was called.
func (t ownTx) Rollback() error {
	err := t.Tx.Rollback()
	_ = t.conn.Close() // it goes back to the pool, if it has not
	return err
}

// Open finds out whether the server has ended a caller's transaction, as after a deadlock. Verify finds it out, too.
func (e engine) Open(ctx context.Context, tx dibs.SQLTx, verified bool) error {
	var open bool
	if !verified && !e.store.cluster { // on a cluster the error says more
		return nil
	}
	err := rowstore.One(ctx, tx, "select @@in_transaction", &open)
	if err == nil && !open {
		err = rowstore.ErrRolledBack
	}
	return err
}
