package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/settings"
)

// tx is a store inside a caller's transaction.
type tx struct {
	s    *Store
	conn conn       // nil for a transaction that is nil or has ended
	mu   sync.Mutex // held by each call: a transaction has one connection
	// ownTokens are the tokens of claims made through this tx: while the transaction is open
	// no other worker can take their jobs, so their leases do not end.
	ownTokens [][16]byte
	touched   map[string]bool // queues that got jobs, or whose groups were changed
	finished  []int64         // jobs whose outcomes were written
	unsettled bool            // jobs that others come after have ended, or jobs have come that come after others
}

// Tx is the store inside a pgx transaction, and inside those that pgx makes in it by savepoints.
func (s *Store) Tx(t pgx.Tx) dibs.Tx {
	c := connOf(t)
	if s == nil || c == nil {
		return &tx{s: s} // its calls return an error that says what is missing
	}
	return &tx{s: s, conn: onPgx(t, c.Config())}
}

// connOf is nil for a transaction that is nil or has ended: Conn may then panic.
func connOf(t pgx.Tx) (c *pgx.Conn) {
	defer func() {
		if recover() != nil {
			c = nil
		}
	}()
	return t.Conn()
}

// SQLTx is the store inside a transaction of database/sql, of any PostgreSQL driver: a *sql.Tx,
// or a value with its ExecContext and QueryContext, such as a transaction of sqlx or GORM.
func (s *Store) SQLTx(t dibs.SQLTx) dibs.Tx {
	if s == nil || checks.NoTx(t) {
		return &tx{s: s} // its calls return an error that says what is missing
	}
	return &tx{s: s, conn: sqlConn{t}}
}

// use begins a call in the transaction, or refuses it if there is none. Calls of several
// goroutines wait for each other.
func (t *tx) use(ctx context.Context, op string, arguments ...error) (end func(), err error) {
	if err := t.s.ready(ctx, op); err != nil {
		return nil, err
	}
	if t.conn == nil {
		return nil, checks.ErrNoTx
	}
	if err := cmp.Or(arguments...); err != nil {
		return nil, err
	}
	t.mu.Lock()
	return t.mu.Unlock, nil
}

// InTx implements admin.Database. It needs a connection of the pool while f runs, so an InTx
// within f may wait for ever if Options.MaxConns is small.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	if err := s.ready(ctx, "transaction", checks.InTx(f)); err != nil {
		return err
	}
	var own dibs.Tx
	err := s.transactOnce(ctx, "transaction", func(t pgx.Tx) error {
		own = s.Tx(t)
		return f(own)
	})
	if err == nil {
		own.Wake()
	}
	return err
}

// transact runs f in a transaction, and repeats it if it failed only because of concurrent
// transactions.
func (s *Store) transact(ctx context.Context, op string, f func(conn) error) error {
	return repeatTransaction(func() error {
		return s.transactOnce(ctx, op, func(t pgx.Tx) error { return f(onPgx(t, t.Conn().Config())) })
	})
}

func (s *Store) transactOnce(ctx context.Context, op string, f func(pgx.Tx) error) error {
	t, end, err := s.begin(ctx)
	if err != nil {
		return wrap(op, err)
	}
	defer end() // rolls back, with no effect after the commit
	if err := f(t); err != nil {
		return s.explain(ctx, err)
	}
	return wrap(op, t.Commit(ctx))
}

// begin begins a transaction on one of the connections that transactions may hold for long;
// it waits for a free one.
func (s *Store) begin(ctx context.Context) (t pgx.Tx, end func(), err error) {
	select {
	case s.txSlots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if t, err = s.beginOn(ctx, s.pool); err != nil {
		<-s.txSlots
		return nil, nil, s.explain(ctx, err)
	}
	return t, func() {
		_ = t.Rollback(context.WithoutCancel(ctx)) // the pool closes a connection that comes back with an open transaction
		<-s.txSlots
	}, nil
}

// beginOn begins a READ COMMITTED transaction, whatever the server's default: a statement must
// see what was committed while the ones before it waited.
func (s *Store) beginOn(ctx context.Context, pool *pgxpool.Pool) (pgx.Tx, error) {
	t, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if _, ok := s.db.(planningConn); ok && err == nil {
		if _, err = t.Exec(ctx, ownTransaction); err != nil {
			err = errors.Join(err, t.Rollback(context.WithoutCancel(ctx)))
		}
	}
	return t, err
}

// Enqueue implements dibs.Tx.
func (t *tx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return t.s.middleware().Enqueue(ctx, jobs, t.enqueue)
}

func (t *tx) enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	end, err := t.use(ctx, "enqueue")
	if err != nil {
		return nil, err
	}
	defer end()
	out, queues, err := t.s.enqueue(ctx, jobs, t.conn)
	t.unsettled = t.unsettled || comeAfter(jobs)
	t.touch(queues...)
	return out, err
}

// touch adds queues to those that Wake wakes.
func (t *tx) touch(queues ...string) {
	if t.touched == nil {
		t.touched = map[string]bool{}
	}
	for _, q := range queues {
		t.touched[q] = true
	}
}

// ChangeGroup implements dibs.Tx. What locks the queue's row is done in a transaction of its own, since claims
// of others would wait for it.
func (t *tx) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	const op = "change group"
	end, err := t.use(ctx, op, settings.CanChangeGroup(queue, group, f))
	if err != nil {
		return err
	}
	defer end()
	if err := checkIsolation(ctx, fmt.Sprintf("change a group of queue %q", queue), t.conn); err != nil {
		return wrap(op, err)
	}
	if err := t.conn.run(ctx, t.s.groupTurn(queue, group)); err != nil {
		return wrap(op, err)
	}
	before, err := t.s.readsOn(func(*Store) conn { return t.conn }).Group(ctx, queue, group)
	if err != nil {
		return err
	}
	after, err := checks.ChangedGroup(before, f)
	if err != nil {
		return err
	}
	if err := t.s.upkeep.run(ctx, slices.Concat([]step{waitBriefly}, t.s.useGroups(queue, after))...); err != nil {
		return wrap(op, err)
	}
	// In the caller's transaction again: the queue may have been deleted since. If it was not, this locks nothing.
	steps := slices.Concat(t.s.useGroups(queue, after), t.s.groupSteps(queue, before, after))
	if after.Rate != before.Rate { // an admission would wait for the row of the group
		steps = slices.Insert(steps, 0, t.s.step("lock_admit", t.s.admitKey(queue)))
	}
	if err := t.conn.run(ctx, steps...); err != nil {
		return wrap(op, err)
	}
	t.touch(queue)
	return nil
}

var isolation = qualify.Text("select current_setting('transaction_isolation')")

// checkIsolation refuses a caller's transaction whose isolation level hides changes that the call must see.
func checkIsolation(ctx context.Context, what string, c conn) error {
	var level string
	err := c.run(ctx, step{sql: isolation}.into(&level))
	if err == nil && (level == "repeatable read" || level == "serializable") {
		err = &dibs.InvalidError{Field: "transaction", Reason: fmt.Sprintf("must be READ COMMITTED to %s: its snapshot would miss what has changed since it began", what)}
	}
	return err
}

// Wake implements dibs.Tx.
func (t *tx) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range t.touched {
		t.s.Wake(q)
	}
	clear(t.touched)
	if t.unsettled {
		t.s.settleSoon()
		t.unsettled = false
	}
	if t.finished != nil {
		t.s.waits.Ended(func() []int64 { return t.finished })
		t.finished = nil
	}
}

// Claim implements dibs.Tx. It admits and sweeps in transactions of their own, so that the
// caller's transaction does not hold the turn to do so.
func (t *tx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	end, err := t.use(ctx, "claim", checks.Claim(&r))
	if err != nil {
		return nil, err
	}
	defer end()
	if err := t.s.sweepIfDue(ctx, expireEvery); err != nil {
		return nil, err
	}
	if q, ok := t.s.queues.get(r.Queue); !ok || q.grouped {
		if err := t.s.admit(ctx, r.Queue); err != nil {
			return nil, wrapClaim(r.Queue, err)
		}
	}
	jobs, err := t.s.claimUnderSettings(ctx, r, claimer{conn: t.conn, inTx: true})
	if len(jobs) > 0 {
		t.ownTokens = append(t.ownTokens, jobs[0].Token)
	}
	return jobs, wrapClaim(r.Queue, err)
}

// Finish implements dibs.Tx.
func (t *tx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	checked, err := checks.Outcomes(outcomes)
	end, err := t.use(ctx, "finish", err)
	if err != nil {
		return err
	}
	defer end()
	t.finished = append(t.finished, idsOf(checked)...)
	f := finisher{conn: t.conn, whole: true, ownTokens: t.ownTokens, settle: func() { t.unsettled = true }}
	if slices.ContainsFunc(checked, adds) {
		err = t.finishAndAdd(ctx, checked, f)
	} else {
		err = t.s.finish(ctx, checked, f)
	}
	return t.explainSnapshot(ctx, checked, err)
}

// finishAndAdd is Finish for outcomes of which some add jobs.
func (t *tx) finishAndAdd(ctx context.Context, outcomes []dibs.Outcome, f finisher) error {
	queues, refused, err := t.s.finishAndAdd(ctx, outcomes, f)
	t.touch(queues...)
	return cmp.Or(err, refused)
}

// explainSnapshot replaces an error of Finish that comes from an old snapshot. A transaction with one snapshot
// (REPEATABLE READ, SERIALIZABLE) that began before the last extension of a lease can never finish the job: it sees
// the lease's old end, or a row that was changed since.
func (t *tx) explainSnapshot(ctx context.Context, outcomes []dibs.Outcome, err error) error {
	var refused *dibs.FinishError
	switch {
	case hasCode(err, "40001"):
	case errors.As(err, &refused) && len(refused.Lost) > 0:
		if checkIsolation(ctx, "finish", t.conn) == nil {
			return err
		}
		outcomes, _ = parted(outcomes, func(o dibs.Outcome) bool { return slices.Contains(refused.Lost, o.ID) })
	default:
		return err
	}
	held, heldErr := t.s.held(ctx, "finish", each(outcomes, idOf), each(outcomes, tokenOf))
	if heldErr != nil || len(held) == 0 {
		return err
	}
	id := slices.Min(slices.Collect(maps.Keys(held)))
	return &dibs.InvalidError{Field: "transaction", Reason: fmt.Sprintf("must be READ COMMITTED, or begin when the work is done, to finish job %d: its snapshot is older than the last extension of the job's lease, "+
		"which the worker makes every third of a lease; roll back (%v)", id, err)}
}
