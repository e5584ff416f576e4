package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// turn passes the right to write among the connections of one process, first come first
// served. Processes share SQLite's file locks, which keep no order: a process that finds the
// file locked tries again about every millisecond (retryPause), and a busy writer that has
// seen other processes leaves them a gap (writer.go).
type turn struct {
	token        chan struct{}
	otherCommits atomic.Int64 // transactions of connections other than the writer's
}

func newTurn() *turn { return &turn{token: make(chan struct{}, 1)} }

func (t *turn) take(ctx context.Context) error {
	select {
	case t.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) pass() { <-t.token }

// retryPause is how long to wait before the file's lock is tried again: about a
// millisecond, spread so that two processes do not keep step.
func retryPause() time.Duration {
	return time.Duration(500+rand.IntN(1000)) * time.Microsecond
}

// openPool makes a pool of connections. If t is not nil, transactions that write take that
// turn, and wait for other processes for at most limit.
func openPool(dsn string, t *turn, limit time.Duration) *sql.DB {
	return sql.OpenDB(connector{dsn: dsn, turn: t, lockWait: limit})
}

type connector struct {
	dsn      string
	turn     *turn
	lockWait time.Duration
}

func (c connector) Driver() driver.Driver { return &sqlite.Driver{} }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := (&sqlite.Driver{}).Open(c.dsn)
	if err != nil || c.turn == nil {
		return conn, err
	}
	return &turnConn{sqliteConn: conn.(sqliteConn), turn: c.turn, lockWait: c.lockWait}, nil
}

// sqliteConn lists the interfaces of the driver's connections that database/sql looks for.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// turnConn takes the turn for each transaction that may write, until it ends.
type turnConn struct {
	sqliteConn
	turn     *turn
	lockWait time.Duration
	open     *turnTx
}

func (c *turnConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o.ReadOnly {
		return c.beginReading(ctx, o)
	}
	if err := c.turn.take(ctx); err != nil {
		return nil, err
	}
	tx, err := c.begin(ctx, o)
	if err != nil {
		c.turn.pass()
		return nil, err
	}
	c.open = &turnTx{Tx: tx, turn: c.turn}
	return c.open, nil
}

// beginReading begins a read-only transaction. The driver ignores ReadOnly, so it sets
// query_only, with which SQLite refuses to write.
func (c *turnConn) beginReading(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.pragma("query_only = 1"); err != nil {
		return nil, err
	}
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, errors.Join(err, c.pragma("query_only = 0"))
	}
	return readingTx{tx, c}, nil
}

type readingTx struct {
	driver.Tx
	conn *turnConn
}

func (t readingTx) Commit() error { return errors.Join(t.Tx.Commit(), t.conn.pragma("query_only = 0")) }

func (t readingTx) Rollback() error {
	return errors.Join(t.Tx.Rollback(), t.conn.pragma("query_only = 0"))
}

// begin tries to get the file's lock every retryPause. The driver's own waiting tries ever
// more seldom and starves beside a busy process: it took up to 7.7 s instead of 20 ms.
func (c *turnConn) begin(ctx context.Context, o driver.TxOptions) (tx driver.Tx, err error) {
	if err := c.setBusyTimeout(0); err != nil {
		return nil, err
	}
	err = retryBusy(ctx, c.lockWait, func() error {
		tx, err = c.sqliteConn.BeginTx(ctx, o)
		return err
	})
	if waitErr := c.setBusyTimeout(c.lockWait); waitErr != nil && err == nil {
		return nil, errors.Join(waitErr, tx.Rollback())
	}
	return tx, err
}

// setBusyTimeout sets how long the driver itself waits for a lock.
func (c *turnConn) setBusyTimeout(d time.Duration) error {
	return c.pragma(fmt.Sprintf("busy_timeout = %d", d.Milliseconds()))
}

func (c *turnConn) pragma(setting string) error {
	_, err := c.ExecContext(context.Background(), "pragma "+setting, nil)
	return err
}

// Close rolls an open transaction back: SQLite by itself would do so only once the
// transaction's statements are closed too.
func (c *turnConn) Close() (err error) {
	if c.open != nil && !c.open.ended.Load() {
		err = c.open.Rollback()
	}
	return errors.Join(err, c.sqliteConn.Close())
}

type turnTx struct {
	driver.Tx
	turn  *turn
	ended atomic.Bool
}

func (t *turnTx) Commit() error { return t.finish(t.Tx.Commit) }

func (t *turnTx) Rollback() error { return t.finish(t.Tx.Rollback) }

func (t *turnTx) finish(f func() error) error {
	if !t.ended.CompareAndSwap(false, true) {
		return driver.ErrBadConn // the connection is closed, and using it would crash the driver
	}
	defer t.turn.pass()
	t.turn.otherCommits.Add(1)
	return f()
}
