package mysql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs/internal/lab/interleave"
	"github.com/dibs-queue/dibs/mysql"
)

// stepping is a driver whose connections stop before each statement of an actor, and set the time for it.
type stepping struct {
	driver.Connector
	actor *actor
}

func (c stepping) Connect(ctx context.Context) (driver.Conn, error) {
	plain, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// With 0 a read of a single row by skip locked fails if the row is locked (1180), instead of passing over it.
	stops := &stopsConn{plain.(plainConn), c.actor}
	_, err = stops.plainConn.ExecContext(ctx, "set innodb_lock_wait_timeout = least(@@innodb_lock_wait_timeout, 1), idle_transaction_timeout = 0", nil)
	return stops, err
}

// plainConn is what a connection of the MariaDB driver can do.
type plainConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

type stopsConn struct {
	plainConn
	actor *actor
}

func (c *stopsConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	last, rest, err := c.lead(ctx, query, args)
	if err == nil {
		err = c.step(ctx, last, func() error {
			if last.Text == "commit" || last.Text == "rollback" {
				ctx = context.WithoutCancel(ctx) // it may have stopped for longer than the store waits
			}
			result, err = c.plainConn.ExecContext(ctx, last.Text, rest)
			return err
		})
	}
	return result, err
}

func (c *stopsConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	last, rest, err := c.lead(ctx, query, args)
	if err == nil {
		err = c.step(ctx, last, func() error {
			rows, err = c.plainConn.QueryContext(ctx, last.Text, rest)
			return err
		})
	}
	return rows, err
}

// lead runs all statements of a file but the last one, which it returns with its arguments.
func (c *stopsConn) lead(ctx context.Context, query string, args []driver.NamedValue) (mysql.Part, []driver.NamedValue, error) {
	parts, ok := c.actor.parts[query]
	if !ok {
		return mysql.Part{Name: query, Text: query}, args, nil
	}
	for _, p := range parts[:len(parts)-1] {
		own := args[:p.Args]
		args = args[p.Args:]
		if err := c.step(ctx, p, func() error {
			_, err := c.plainConn.ExecContext(ctx, p.Text, own)
			return err
		}); err != nil {
			return mysql.Part{}, nil, err
		}
	}
	return parts[len(parts)-1], args, nil
}

func (c *stopsConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.plainConn.BeginTx(ctx, o)
	return stopsTx{tx, c.actor}, err
}

// stopsTx is a caller's transaction.
type stopsTx struct {
	driver.Tx
	actor *actor
}

func (t stopsTx) Commit() error {
	t.actor.end("commit")
	return t.Tx.Commit()
}

func (t stopsTx) Rollback() error {
	t.actor.end("rollback")
	return t.Tx.Rollback()
}

var errAbandoned = errors.New("the run was given up")

// step makes one statement of an actor. A statement that has waited a second for a lock is tried again when another
// transaction has ended.
func (c *stopsConn) step(ctx context.Context, p mysql.Part, do func() error) error {
	a := c.actor
	switch {
	case p.Text == "commit" || p.Text == "rollback":
		a.end(p.Text)
		return do()
	case strings.HasPrefix(p.Text, "rollback to savepoint"):
		a.again = true
		return do()
	case strings.HasPrefix(p.Text, "release savepoint"):
		a.again, a.repeats = a.again || a.repeats, false
		return do()
	case p.Args == 0 && p.Name == p.Text || strings.HasPrefix(p.Name, "put_"): // it is not of a file, or is run beside the transaction
		return errors.Join(c.setTime(ctx), do())
	}
	s := interleave.Step{Name: p.Name, Holds: a.holds, Timeless: p.Name != "clock"}
	if a.again {
		s.Name, s.Idle = p.Name+" once more", true
	}
	for {
		if a.again = false; !a.stops(s) {
			return errAbandoned
		}
		if err := c.setTime(ctx); err != nil {
			return err
		}
		err := do()
		var refused *mysqldriver.MySQLError
		if a.stage.stop == nil || a.number == mostActors || !errors.As(err, &refused) || refused.Number != 1205 {
			a.holds = a.holds || !reads(p.Text)
			a.repeats = a.repeats || p.Name == "tokens"
			return err
		}
		a.stage.waited(p.Name)
		s.Name, s.Idle, s.Holds = p.Name+" after a wait", true, true
	}
}

// reads reports whether a statement neither locks nor changes rows.
func reads(text string) bool {
	return (strings.HasPrefix(text, "select") || strings.HasPrefix(text, "with") || strings.HasPrefix(text, "begin not atomic")) &&
		!strings.Contains(text, "for update") && !strings.Contains(text, "lock in share mode")
}

// setTime sets the time of a connection. Each statement of an actor takes a millisecond.
func (c *stopsConn) setTime(ctx context.Context) error {
	now := c.actor.stage.now
	if c.actor.number < mostActors {
		c.actor.stage.now = now.Add(time.Millisecond)
	}
	_, err := c.plainConn.ExecContext(ctx, fmt.Sprintf("set timestamp = %d.%06d", now.Unix(), now.Nanosecond()/1000), nil)
	return err
}
