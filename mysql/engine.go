package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// engine is what internal/rowstore needs of a store.
type engine struct{ store *Store }

func (e engine) Ready(ctx context.Context) error { return e.store.ready(ctx) }

// Read runs a statement on a connection of its own; all its rows are of one snapshot.
func (e engine) Read(ctx context.Context, statement string, each func(*sql.Rows) error, args ...any) error {
	return e.store.read(ctx, statement, each, args...)
}

func (e engine) Classify(err error) error { return classify(err) }

// upkeep is how far this process has come with sweeps and repairs. One transaction at a time has it.
type upkeep struct {
	sync.Mutex
	memory *rowstore.Memory
}

// repeats is how often a transaction is begun again that the server has rolled back, as it and another one have waited
// for each other, or that has waited too long.
const repeats = 5

// repeatWithin is until when it is begun again: with the last wait for a lock, a call gives up after 15 s.
const repeatWithin = 2 * lockWait * time.Second

// endWithin is how long a commit or a rollback may take after the call's context has ended.
const endWithin = 10 * time.Second

// Write runs f in a transaction of its own.
func (e engine) Write(ctx context.Context, f func(*rowstore.Session) error) error {
	began := time.Now()
	for try := 1; ; try++ {
		n := e.store.near(ctx)
		err := e.once(ctx, n, f)
		if other := e.store.lost(n, err); other && !errors.Is(err, errUnknown) && ctx.Err() == nil {
			continue // nothing has taken effect, and another node is there
		}
		if !again(err, try, time.Since(began)) && !e.store.conflict(err, time.Since(began)) || ctx.Err() != nil {
			return e.store.failed(ctx, err)
		}
	}
}

// again reports whether a transaction is to be begun again that has failed as often and for as long.
func again(err error, tries int, took time.Duration) bool {
	return repeatable(err) && tries < repeats && took < repeatWithin
}

func (e engine) once(ctx context.Context, n *node, f func(*rowstore.Session) error) (err error) {
	c, err := n.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close() // an error is ignored: the transaction has ended
	if _, err := c.ExecContext(ctx, "start transaction"); err != nil {
		return err
	}
	s := rowstore.NewSession(ctx, conn{c, e.store.joined()}, n.dialect)
	if u := &e.store.upkeep; u.TryLock() {
		before := u.memory.Upkeep
		defer func() {
			if err != nil {
				u.memory.Upkeep = before
			}
			u.memory.Forget() // others may change settings meanwhile
			u.Unlock()
		}()
		s.Use(u.memory)
	}
	if err = s.Run(f); err == nil {
		err = s.WriteTally()
	}
	if err == nil {
		err = commit(ctx, c)
	}
	if err != nil {
		rollback(ctx, c)
		return err
	}
	e.store.rows.NoteSettled(s)
	e.store.rows.Wake(s.Wakes()...)
	return nil
}

// commit ends a transaction, even if the call's context has ended: the caller has to learn whether it took place.
func commit(ctx context.Context, c *sql.Conn) error {
	whole, stop := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer stop()
	_, err := c.ExecContext(whole, "commit")
	return explainCommit(err)
}

// explainCommit says of a commit that has failed whether the transaction took effect.
func explainCommit(err error) error {
	switch {
	case err == nil:
		return nil
	case repeatable(err):
		return fmt.Errorf("%w: the server has refused the commit, so nothing took effect: %w", dibs.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// rollback ends a transaction without effect. If that fails, the connection is closed, and so the server does it.
func rollback(ctx context.Context, c *sql.Conn) {
	whole, stop := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer stop()
	if _, err := c.ExecContext(whole, "rollback"); err != nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// insert runs an insert of jobs, and returns the id of the last one, and by how much each is greater than the one before. The
// server says the first: one statement that says how many rows it has takes ids in a row. A job that holds a unique key is noted
// with the key.
func (s *Store) insert(ctx context.Context, tx dibs.SQLTx, text string, args ...any) (last, step int64, err error) {
	n := int64(1)
	if s.cluster {
		last, step, n, err = insertReturning(ctx, tx, text, args)
	} else {
		last, n, err = insertCounting(ctx, tx, text, args)
		step = s.idStep
		last += (n - 1) * step
	}
	if key := args[7]; err == nil && n == 1 && key != nil {
		_, err = tx.ExecContext(ctx, s.sql.Statements.Get("hold_key"), args[0], key, last)
	}
	return last, step, err
}

// insertCounting returns the first id, and how many rows were inserted.
func insertCounting(ctx context.Context, tx dibs.SQLTx, text string, args []any) (first, n int64, err error) {
	result, err := tx.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, 0, err
	}
	if first, err = result.LastInsertId(); err == nil {
		n, err = result.RowsAffected()
	}
	return first, n, err
}
