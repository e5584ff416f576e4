package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// tx is a store inside a caller's transaction.
type tx struct {
	s    *Store
	conn conn
	*txState
}

// txState is what all tx of one transaction share.
type txState struct {
	mu      sync.Mutex // held by each call: a transaction has one connection
	claimed claimed
}

// claimed is what a transaction has claimed and thereby completed, so that Finish can
// give it another outcome. It only remembers what the jobs were: whether the claims
// still hold, which a savepoint may have undone, is for the database to say.
type claimed map[dibs.Lease]*dibs.RawJob

// Tx is the store inside a pgx transaction. Every Tx of one transaction is the same,
// also of those that pgx makes inside of it by savepoints.
func (s *Store) Tx(t pgx.Tx) dibs.Tx {
	c := connOf(t)
	if s == nil || c == nil {
		return &tx{s: s} // its calls say what is missing
	}
	return &tx{s: s, conn: onPgx(t, c.Config()), txState: stateOf(&s.claimed, c)}
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

// SQLTx is the store inside a database/sql transaction, of any PostgreSQL driver.
// Every SQLTx of one transaction is the same.
func (s *Store) SQLTx(t *sql.Tx) dibs.Tx {
	if s == nil || t == nil {
		return &tx{s: s} // its calls say what is missing
	}
	return &tx{s: s, conn: sqlConn{t}, txState: stateOf(&s.claimed, t)}
}

// stateOf finds the state of the transaction t, or of the one on the connection t. It is
// forgotten with t, and what an earlier transaction has claimed at the next claim.
func stateOf[T any](all *sync.Map, t *T) *txState {
	key := weak.Make(t)
	state, known := all.LoadOrStore(key, &txState{claimed: claimed{}})
	if !known {
		runtime.AddCleanup(t, func(key weak.Pointer[T]) { all.Delete(key) }, key)
	}
	return state.(*txState)
}

// use begins a call in the transaction, unless it cannot be made at all. Calls of several
// goroutines wait for each other.
func (t *tx) use(ctx context.Context, op string) (end func(), err error) {
	if err := t.s.check(ctx, op); err != nil {
		return nil, err
	}
	if t.txState == nil {
		return nil, &dibs.InvalidError{Field: "tx", Reason: "is nil or has ended; give the open transaction to work in"}
	}
	t.mu.Lock()
	return t.mu.Unlock, nil
}

// InTx implements dibs.Database.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	if err := s.check(ctx, "transaction"); err != nil {
		return err
	}
	if f == nil {
		return &dibs.InvalidError{Field: "f", Reason: "is nil; give the function that works in the transaction"}
	}
	return s.transactOnce(ctx, "transaction", func(t pgx.Tx) error { return f(s.Tx(t)) })
}

// transact runs f in a transaction, again if that failed only because of what ran
// beside it.
func (s *Store) transact(ctx context.Context, op string, f func(pgx.Tx) error) error {
	return repeating(func() error { return s.transactOnce(ctx, op, f) })
}

func (s *Store) transactOnce(ctx context.Context, op string, f func(pgx.Tx) error) error {
	t, end, err := s.begin(ctx)
	if err != nil {
		return classify(op, err)
	}
	defer end() // rolls back, with no effect after the commit
	if err := f(t); err != nil {
		return err
	}
	return classify(op, t.Commit(ctx))
}

// begin begins a transaction that others' calls come in between of, on one of the
// connections that transactions may hold.
func (s *Store) begin(ctx context.Context) (t pgx.Tx, end func(), err error) {
	select {
	case s.held <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if t, err = s.beginOn(ctx, s.pool); err != nil {
		<-s.held
		return nil, nil, s.ended(ctx, err)
	}
	return t, func() {
		_ = t.Rollback(context.WithoutCancel(ctx)) // else the connection is closed
		<-s.held
	}, nil
}

// beginOn begins a transaction of the store's own: its statements build on what those
// before them have waited for, so they must see it, whatever the server's default.
func (s *Store) beginOn(ctx context.Context, pool *pgxpool.Pool) (pgx.Tx, error) {
	t, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if _, ok := s.db.(planned); ok && err == nil {
		if _, err = t.Exec(ctx, ownTransaction); err != nil {
			err = errors.Join(err, t.Rollback(context.WithoutCancel(ctx)))
		}
	}
	return t, err
}

// Enqueue implements dibs.Tx.
func (t *tx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	end, err := t.use(ctx, "enqueue")
	if err != nil {
		return nil, err
	}
	defer end()
	out, _, err := t.s.enqueue(ctx, jobs, t.conn)
	return out, err
}

// Claim implements dibs.Tx. Admitting and sweeping have transactions of their own,
// so that the caller's holds no turn.
func (t *tx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	end, err := t.use(ctx, "claim")
	if err != nil {
		return nil, err
	}
	defer end()
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	if err := t.s.sweepIfDue(ctx, lostEvery); err != nil {
		return nil, err
	}
	if q, ok := t.s.queues.get(r.Queue); !ok || q.grouped {
		if err := t.s.admit(ctx, r.Queue); err != nil {
			return nil, classifyClaim(r.Queue, err)
		}
	}
	r.Lease = time.Minute // for the moment until they are completed
	jobs, err := t.s.claimWith(ctx, r, claimer{conn: t.conn, tx: true})
	if err != nil || len(jobs) == 0 {
		return nil, classifyClaim(r.Queue, err)
	}
	done := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		done[i] = j.Lease().Complete(nil)
	}
	if err := t.s.finish(ctx, done, t.conn, t.note(jobs[0].Token)); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		t.claimed[j.Lease()] = j
	}
	return jobs, nil
}

var noteClaim = qualify.Text("select set_config('dibs_tx.claims', concat_ws(',', nullif(current_setting('dibs_tx.claims', true), ''), $1::text), true)")

// note adds a claim to those of the transaction, in a setting that ends with it and that
// savepoints undo, and forgets the jobs of claims that are not among them.
func (t *tx) note(token dibs.Token) step {
	return step{
		sql:  noteClaim,
		args: []any{token.String()},
		row: func(scan func(...any) error) error {
			var list string
			err := scan(&list)
			holds := map[string]bool{}
			for token := range strings.SplitSeq(list, ",") {
				holds[token] = true
			}
			maps.DeleteFunc(t.claimed, func(l dibs.Lease, _ *dibs.RawJob) bool { return !holds[l.Token.String()] })
			return err
		},
	}
}

// Finish implements dibs.Tx.
func (t *tx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	end, err := t.use(ctx, "finish")
	if err != nil {
		return err
	}
	defer end()
	checked, err := checks.Outcomes(outcomes)
	if err != nil {
		return err
	}
	for _, o := range checked {
		if j := t.claimed[dibs.Lease{ID: o.ID, Token: o.Token}]; j != nil {
			if err := t.reopen(ctx, j); err != nil {
				return classify("finish", err)
			}
		}
	}
	return t.s.finish(ctx, checked, t.conn)
}

func (t *tx) reopen(ctx context.Context, j *dibs.RawJob) error {
	var errors *string
	if len(j.Errors) > 0 {
		list, err := json.Marshal(j.Errors)
		if err != nil {
			return err
		}
		errors = text(string(list))
	}
	return t.conn.run(ctx, step{sql: t.s.sql.get("reopen"), args: []any{
		j.ID, [16]byte(j.Token), dibs.MaxLease.Microseconds(), j.Queue, j.Kind, string(j.Payload), textOrNull(string(j.Metadata)),
		j.Priority, j.RunAt, j.Attempt, j.Excused, j.MaxAttempts, textOrNull(j.Group), textOrNull(j.UniqueKey),
		textOrNull(string(j.UniqueUntil)), j.Worker, j.CreatedAt, j.ClaimedAt, errors,
	}})
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
