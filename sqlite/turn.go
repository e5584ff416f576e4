package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// turn gives the right to write to the connections of one process, first come first served,
// and shares it among processes (line.go). A busy writer that has seen other processes leaves
// them a gap (writer.go).
type turn struct {
	token        chan struct{}
	line         line
	patience     time.Duration // how long the process waits in line before it also tries by itself
	path         string        // the path of the file
	waits        atomic.Bool   // a transaction waits for another process
	otherCommits atomic.Int64  // transactions that have written on other connections than the writer's
}

func newTurn() *turn { return &turn{token: make(chan struct{}, 1), patience: linePatience} }

func (t *turn) take(ctx context.Context) error {
	select {
	case t.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return t.blocked(ctx.Err())
	}
}

func (t *turn) pass() {
	t.line.leave()
	<-t.token
}

// begin waits for this process' turn, which lasts until pass, and has f begin a transaction. met says
// whether another process was in the way. If one still is after limit, begin returns the error of f.
func (t *turn) begin(ctx context.Context, limit time.Duration, f func() error) (met bool, err error) {
	began := time.Now()
	come, first := t.line.join()
	met = come != nil
	t.waits.Store(met)
	defer t.waits.Store(false)
	if first {
		if come, err = waitFor(ctx, come, min(limit, t.patience)); err != nil {
			return met, t.blocked(err)
		}
	}
	for {
		err := f()
		if !busy(err) {
			return met, err
		}
		met = true
		t.waits.Store(true)
		waited := time.Since(began)
		if waited > limit {
			return met, t.blocked(err)
		}
		if come, err = waitFor(ctx, come, min(t.retryPause(waited, come != nil), limit-waited+firstRetryPause)); err != nil {
			return met, t.blocked(err)
		}
	}
}

// blocked adds to an error which process kept the transaction waiting, if another one did.
func (t *turn) blocked(err error) error {
	if !t.waits.Load() {
		return err
	}
	holder := "another process"
	switch pid, _, _ := lockers(t.path); pid { // if the system does not list its locks, the pid is 0
	case 0:
	case os.Getpid():
		holder = "another transaction of this process"
	default:
		holder = fmt.Sprintf("process %d (%q)", pid, processName(pid))
	}
	return fmt.Errorf("%s holds the file's write lock: %w", holder, err)
}

// waitFor waits for come, for at most d. It returns nil once come is closed.
func waitFor(ctx context.Context, come <-chan struct{}, d time.Duration) (<-chan struct{}, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return come, ctx.Err()
	case <-come:
		return nil, nil
	case <-timer.C:
		return come, nil
	}
}

// retryPause is how long to wait before the file's lock is tried again. While there is a line, only the first in line
// tries, and others after a long wait, as the first may have been stopped. They try often enough to find the gaps that
// a busy process leaves.
func (t *turn) retryPause(waited time.Duration, behind bool) time.Duration {
	switch {
	case behind:
		return spread(behindRetryPause)
	case t.line.exists():
		return spread(firstRetryPause)
	default:
		return growing(waited)
	}
}

const (
	firstRetryPause  = time.Millisecond
	lastRetryPause   = 20 * time.Millisecond
	behindRetryPause = 40 * time.Millisecond
)

// growing is a pause that grows with the time waited so far.
func growing(waited time.Duration) time.Duration {
	return spread(min(max(waited/16, firstRetryPause), lastRetryPause))
}

// spread is half of d to one and a half, so that two processes do not keep step.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

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

// begin waits for the turn. The driver does not wait by itself: it would try more and more
// seldom and starve beside a busy process, for up to 7.7 s instead of 20 ms.
func (c *turnConn) begin(ctx context.Context, o driver.TxOptions) (tx driver.Tx, err error) {
	if err := c.setBusyTimeout(0); err != nil {
		return nil, err
	}
	_, err = c.turn.begin(ctx, c.lockWait, func() error {
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
