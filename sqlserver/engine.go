package sqlserver

import (
	"context"
	"database/sql"
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
const repeatWithin = 10 * time.Second

// endWithin is how long a commit or a rollback may take after the call's context has ended.
const endWithin = 10 * time.Second

// readCommitted is named at each begin: a connection that comes back from the pool has the isolation of its last transaction.
var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// Write runs f in a transaction of its own.
func (e engine) Write(ctx context.Context, f func(*rowstore.Session) error) error {
	began := time.Now()
	for try := 1; ; try++ {
		err := e.once(ctx, f)
		if !again(err, try, time.Since(began)) || ctx.Err() != nil {
			return e.store.failed(ctx, err)
		}
	}
}

// again reports whether a transaction is to be begun again that has failed as often and for as long.
func again(err error, tries int, took time.Duration) bool {
	return repeatable(err) && tries < repeats && took < repeatWithin
}

func (e engine) once(ctx context.Context, f func(*rowstore.Session) error) (err error) {
	c, err := e.store.pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close() // an error is ignored: the transaction has ended
	tx, err := begin(ctx, c)
	if err != nil {
		return err
	}
	defer tx.stop()
	s := rowstore.NewSession(ctx, conn{tx.Tx, true}, &e.store.sql.Dialect)
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
		err = tx.commit()
	}
	if err != nil {
		tx.rollback()
		return err
	}
	e.store.rows.NoteSettled(s)
	e.store.rows.Wake(s.Wakes()...)
	return nil
}

// transaction is one of the store's own. It ends even if the call's context has ended: the caller has to learn whether it took
// place.
type transaction struct {
	*sql.Tx
	stop context.CancelFunc
}

func begin(ctx context.Context, c *sql.Conn) (transaction, error) {
	whole, stop := context.WithCancel(context.WithoutCancel(ctx))
	tx, err := c.BeginTx(whole, readCommitted)
	if err != nil {
		stop()
	}
	return transaction{tx, stop}, err
}

// commit sends the commit alone, as a request of the protocol: so a lost connection says that nobody knows whether it took place.
func (tx transaction) commit() error {
	defer time.AfterFunc(endWithin, tx.stop).Stop()
	return explainCommit(tx.Commit())
}

// explainCommit says of a commit that has failed on the way that nobody knows whether it took place.
func explainCommit(err error) error {
	if err != nil && !repeatable(err) && !endedByServer(err) && !errors.Is(err, sql.ErrTxDone) {
		err = fmt.Errorf("%w: the connection was lost at the commit, so it is unknown whether the call took effect: %w", dibs.ErrUnavailable, err)
	}
	return err
}

// rollback ends a transaction without effect. If that fails, database/sql closes the connection, and so the server does it.
func (tx transaction) rollback() {
	defer time.AfterFunc(endWithin, tx.stop).Stop()
	_ = tx.Rollback()
}

// Open finds out whether the server has ended a caller's transaction, as after any error of a statement.
func (e engine) Open(ctx context.Context, tx dibs.SQLTx, _ bool) error {
	var depth int
	err := rowstore.One(ctx, tx, "select @@trancount", &depth)
	if endedByServer(err) || err == nil && depth == 0 {
		err = rowstore.ErrRolledBack
	}
	return err
}

// Verify refuses a transaction on another database, on one that cannot be written, or with another isolation: claims would read
// old versions, or wait for the rows that others have locked.
func (e engine) Verify(ctx context.Context, tx dibs.SQLTx) error {
	var isolation int
	var writable bool
	var database sql.NullString
	err := rowstore.One(ctx, tx, e.store.sql.Statements.Get("verify"), &isolation, &writable, &database)
	switch {
	case code(err) == codeNoObject || err == nil && database.String != e.store.identity:
		return &dibs.InvalidError{Field: "tx", Reason: "is on another database than the store; begin it there"}
	case err != nil:
		return err
	case !writable:
		return &dibs.InvalidError{Field: "tx", Reason: "is on a database that cannot be written"}
	case isolation != 2:
		return &dibs.InvalidError{Field: "tx", Reason: "has the isolation " + isolations[isolation] + ", in which it would wait for the rows that others have locked, or decide by old ones; begin it with sql.TxOptions{Isolation: sql.LevelReadCommitted}"}
	}
	return nil
}

var isolations = map[int]string{0: "unspecified", 1: "READ UNCOMMITTED", 3: "REPEATABLE READ", 4: "SERIALIZABLE", 5: "SNAPSHOT"}

// SQLTx is the store inside a transaction of the caller's: a *sql.Tx, or a value with its
// ExecContext and QueryContext, such as a transaction of sqlx or GORM. It must be on the same database, on a connection of
// the driver github.com/microsoft/go-mssqldb, and have the isolation READ COMMITTED: name it at each begin, as a connection of a
// pool keeps that of the transaction before. The first call of the Tx looks, and refuses others.
//
// Any error of the server in a call, such as a deadlock with another transaction, ends the whole transaction: then calls of
// the Tx do nothing, and fail with sql.ErrTxDone.
func (s *Store) SQLTx(tx dibs.SQLTx) dibs.Tx { return s.common().SQLTx(tx) }

// InTx runs f in a transaction of its own, and commits it if f returns nil.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	return s.common().InTx(ctx, s.begin, f)
}

func (s *Store) begin(ctx context.Context) (rowstore.OwnTx, error) {
	tx, err := s.callers.BeginTx(ctx, readCommitted)
	return ownTx{tx}, s.failed(ctx, err)
}

// ownTx is a transaction of InTx.
type ownTx struct{ *sql.Tx }

// Commit says of a lost commit that its outcome is unknown.
func (tx ownTx) Commit() error { return explainCommit(tx.Tx.Commit()) }
