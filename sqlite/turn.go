package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// turn passes the right to write among the connections of one process, first come
// first served. Between processes there are only SQLite's file locks, which know no
// order: who finds the file locked tries again about every millisecond (retryPause),
// and a busy writer that has seen others leaves them a gap (writer.go).
type turn struct {
	token   chan struct{}
	commits atomic.Int64 // of transactions that were not the writer's
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

// openPool makes a pool of connections. With a turn, transactions that write take it.
func openPool(dsn string, t *turn) *sql.DB {
	return sql.OpenDB(connector{dsn: dsn, turn: t})
}

type connector struct {
	dsn  string
	turn *turn
}

func (c connector) Driver() driver.Driver { return &sqlite.Driver{} }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := (&sqlite.Driver{}).Open(c.dsn)
	if err != nil || c.turn == nil {
		return conn, err
	}
	return &turnConn{sqliteConn: conn.(sqliteConn), turn: c.turn}, nil
}

// sqliteConn is what the driver's connections can do and database/sql asks for.
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

// turnConn takes the turn for as long as a transaction lasts that may write.
type turnConn struct {
	sqliteConn
	turn *turn
	open *turnTx
}

func (c *turnConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o.ReadOnly {
		return c.sqliteConn.BeginTx(ctx, o)
	}
	if err := c.turn.take(ctx); err != nil {
		return nil, err
	}
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		c.turn.pass()
		return nil, err
	}
	c.open = &turnTx{Tx: tx, turn: c.turn}
	return c.open, nil
}

// Close passes the turn of a transaction that was left open: SQLite rolls it back.
func (c *turnConn) Close() error {
	err := c.sqliteConn.Close()
	if c.open != nil {
		c.open.end()
	}
	return err
}

type turnTx struct {
	driver.Tx
	turn *turn
	once sync.Once
}

func (t *turnTx) end() { t.once.Do(t.turn.pass) }

func (t *turnTx) Commit() error {
	defer t.end()
	t.turn.commits.Add(1)
	return t.Tx.Commit()
}

func (t *turnTx) Rollback() error {
	defer t.end()
	return t.Tx.Rollback()
}
