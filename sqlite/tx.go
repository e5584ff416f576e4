package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
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
	if s == nil || checks.NoTx(tx) {
		return &callerTx{store: s} // its calls say what is missing
	}
	return s.newTx(tx)
}

func (s *Store) newTx(tx dibs.SQLTx) *callerTx {
	if p, ok := tx.(preparer); ok {
		tx = newPrepared(p)
	}
	t := &callerTx{store: s, session: newSession(context.Background(), tx, s.sql)}
	t.session.ownTokens = make(map[dibs.Token]bool)
	return t
}

// InTx runs f in a transaction of its own, and commits it if f returns nil. f must use only
// its Tx to write: the store's own writing methods wait for the transaction to end.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	if err := s.ready(ctx); err != nil {
		return wrap("transaction", err)
	}
	if f == nil {
		return &dibs.InvalidError{Field: "f", Reason: "is nil; give the function that works in the transaction"}
	}
	tx, err := s.callerPool.BeginTx(ctx, nil)
	if err != nil {
		return wrap("transaction", s.failed(ctx, err))
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	t := s.newTx(tx)
	t.verified = true
	if err := f(t); err != nil {
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

// Wake implements dibs.Tx.
func (t *callerTx) Wake() {
	if t.store == nil || t.session == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store.wakeups.broadcast(t.session.wakes())
	clear(t.session.woken)
	t.store.waits.Ended(func() []int64 { return t.finished })
	t.finished = nil
}

// callerTx is the part of a store that works in the caller's transaction.
type callerTx struct {
	store      *Store
	session    *session
	mu         sync.Mutex // held by each call: a transaction has one connection
	verified   bool       // the transaction is on the store's file and may write
	rolledBack bool       // a call has found that SQLite has rolled the transaction back
	finished   []int64    // jobs whose outcomes were written
}

// do runs f as one call, under a savepoint: a call that fails changes nothing. The end of
// ctx does not break off the statements that begin and end the call. Settings are read anew
// each time: the caller may have rolled back the making of a queue.
func (t *callerTx) do(ctx context.Context, op string, f func(*session) error) error {
	if err := t.ready(ctx); err != nil {
		return wrap(op, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, whole := t.session, context.WithoutCancel(ctx)
	s.ctx = whole
	clear(s.queues)
	if err := t.begin(); err != nil {
		return wrap(op, s.explainEnd(ctx, err))
	}
	before := s.mark()
	s.ctx, s.callTime = ctx, 0
	err := t.verify()
	if err == nil {
		err = f(s)
	}
	if err == nil {
		err = s.writeTally()
	}
	s.ctx = whole
	if err == nil {
		err = s.runText("release dibs_call")
	}
	if err == nil {
		return nil
	}
	s.reset(before)
	if s.runText("rollback to dibs_call") != nil {
		t.rolledBack = true
		return wrap(op, s.explainEnd(ctx, fmt.Errorf("%w; %w", err, errRolledBack)))
	}
	_ = s.runText("release dibs_call") // the savepoint has been rolled back
	return wrap(op, err)
}

var errRolledBack = fmt.Errorf("SQLite has rolled the transaction back: %w", sql.ErrTxDone)

// begin sets the savepoint of a call. If SQLite has rolled the transaction back, which
// database/sql does not learn, a savepoint would begin a new transaction and its release
// commit it. So it first runs "begin", which fails inside of a transaction and takes 2 µs.
func (t *callerTx) begin() error {
	if t.rolledBack {
		return errRolledBack
	}
	s := t.session
	err := s.runText("begin")
	if err == nil {
		t.rolledBack = true
		return errors.Join(errRolledBack, s.runText("rollback"))
	}
	if code, ok := resultCode(err); !ok || code != sqlite3.SQLITE_ERROR {
		return err
	}
	return s.runText("savepoint dibs_call")
}

// explainEnd returns sql.ErrTxDone, or the context's error, if err comes from the end of the
// transaction: database/sql only says that its statements are closed.
func (s *session) explainEnd(ctx context.Context, err error) error {
	rows, now := s.conn.QueryContext(context.WithoutCancel(ctx), "select 1")
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

// Enqueue is Store.Enqueue in the transaction.
func (t *callerTx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return t.store.middleware().Enqueue(ctx, jobs, t.enqueue)
}

func (t *callerTx) enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := checkJobs(jobs)
	if err != nil {
		return nil, err
	}
	var done []dibs.Enqueued
	err = t.do(ctx, "enqueue", func(s *session) (err error) {
		done, err = s.enqueue(rows)
		return err
	})
	return done, err
}

// SetGroup is Store.SetGroup in the transaction.
func (t *callerTx) SetGroup(ctx context.Context, queue, group string, c dibs.GroupChange) error {
	if err := checks.Group(queue, group, c); err != nil {
		return err
	}
	return t.do(ctx, "set group", func(s *session) error { return s.changeGroup(queue, group, c) })
}

// Claim is Store.Claim in the transaction; other connections see it after the commit.
func (t *callerTx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	var jobs []*dibs.RawJob
	err := t.do(ctx, "claim", func(s *session) (err error) {
		if _, err := s.expire(); err != nil { // the writer cannot sweep while the transaction is open
			return err
		}
		if jobs, err = s.claim(r); len(jobs) > 0 {
			s.ownTokens[jobs[0].Token] = true // the mark does no harm if the claim is rolled back
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// Finish is Store.Finish in the transaction.
func (t *callerTx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes, err := checks.Outcomes(outcomes)
	if err != nil {
		return err
	}
	var lost []int64
	err = t.do(ctx, "finish", func(s *session) (err error) {
		t.finished = append(t.finished, idsOf(outcomes)...)
		lost, err = s.finish(outcomes)
		return err
	})
	if err != nil {
		return err
	}
	return leaseLost(lost)
}
