package adopt

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Tx works inside a transaction of the caller ("ClaimTx"): claim, work, finish and commit, all
// or nothing. A rollback or a lost connection makes the rows available again, as if they had
// not been claimed. Other claims skip them meanwhile.
//
// Finish writes the outcomes in the same transaction. A row without an outcome stays claimed
// after the commit until its lease ends. If the mapping names neither columns that a claim
// writes nor a side table, it is available again after the commit.
//
// Until the transaction ends, no other claim takes rows of the same groups, or, if the queue has
// a limit, any row of the queue. With groups or such a limit a transaction on PostgreSQL must be
// READ COMMITTED, and one on MariaDB cannot claim. On SQLite begin a transaction that writes
// (_txlock=immediate), or its first write may find the file locked.
//
// Use one Tx for all calls in a transaction: while that is open, the leases of the rows that the
// Tx has claimed do not end. Calls of several goroutines wait for each other. If the row lock
// alone is the lease (degree "transaction"), only the Tx knows what it holds, so a second Tx
// holds nothing, and a claim or finish must not be undone by a savepoint: end the transaction.
type Tx struct {
	s   *Store
	tx  adopted.Querier
	mu  sync.Mutex          // held by each call
	own map[dibs.Token]bool // tokens of this transaction's claims, whose leases do not end; nil: they end
	// locked remembers claims that only a row lock holds: the table does not show them.
	locked map[dibs.Lease]*claim
}

// SQLTx makes the store work inside a transaction of its own database: a *sql.Tx, or another
// type with ExecContext and QueryContext, such as the transactions of sqlx and GORM.
func (s *Store) SQLTx(tx dibs.SQLTx) *Tx {
	if checks.NoTx(tx) {
		return &Tx{s: s} // its calls say what is missing
	}
	t := s.within(callerTx{tx})
	t.own = map[dibs.Token]bool{}
	return t
}

// callerTx is a caller's transaction. It prepares no statements: only Open needs that.
type callerTx struct{ dibs.SQLTx }

func (callerTx) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.ErrUnsupported
}

func (s *Store) within(q adopted.Querier) *Tx {
	return &Tx{s: s, tx: q, locked: map[dibs.Lease]*claim{}}
}

// Within makes a Tx of a plan, for package advice, which tries a mapping and rolls back.
func Within(p *adopted.Plan, q adopted.Querier) *Tx {
	s := newStore(p)
	s.SetLog(slog.New(slog.DiscardHandler))
	s.passed.refusing.Store(true)
	return s.within(q)
}

// PassedOver is Store.PassedOver.
func (t *Tx) PassedOver() []PassedRow { return t.s.PassedOver() }

// open refuses a call without a transaction or a context.
func (t *Tx) open(ctx context.Context) error {
	if t.tx == nil {
		return checks.ErrNoTx
	}
	return checks.Context(ctx)
}

// Claim claims rows as Store.Claim does. On PostgreSQL no other claim waits for the transaction; on SQLite every writer does.
func (t *Tx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	s := t.s
	take, err := s.checkClaim(&r)
	if err != nil || take == nil {
		return nil, err
	}
	var keys []string
	for _, c := range t.locked {
		keys = append(keys, c.key)
	}
	take.values["has"] = jsonArray(keys)
	switch limited := s.do.Turn != nil || s.do.Alone != nil; {
	case limited && s.plan.Dialect.SessionLocks && t.own != nil:
		return nil, adopted.Invalid("transaction", "cannot claim where groups or the queue have a limit: on %s no lock for that ends with a transaction; use Store.Claim", s.plan.Dialect.Title)
	case limited && !s.plan.Dialect.SessionLocks:
		level, err := adopted.QueryAll(ctx, t.tx, "select pg_catalog.current_setting('transaction_isolation')")
		if err != nil {
			return nil, adopted.Classify("claim", err)
		}
		if level[0][0] != "read committed" {
			return nil, adopted.Invalid("transaction", "must be READ COMMITTED to claim where groups or the queue have a limit, is %s: its snapshot would miss claims committed since it began", level[0][0])
		}
	}
	rows, err := s.claimAroundIn(ctx, t.tx, take, r.N)
	if err != nil {
		return nil, adopted.Classify("claim", err)
	}
	jobs := s.jobs(rows, take)
	if len(jobs) > 0 && t.own != nil {
		t.own[jobs[0].Token] = true
	}
	if s.plan.LockOnly() {
		for _, j := range jobs {
			t.locked[j.Lease()] = s.held.get(j.Lease())
			s.held.drop(j.Lease()) // the claim exists only in this transaction
		}
	}
	return jobs, nil
}

// Finish is Store.Finish in the transaction. On ErrLeaseLost the caller must roll back.
func (t *Tx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(ctx); err != nil {
		return err
	}
	_, err := t.s.finish(ctx, outcomes, t.tx, t.findClaims, func(_ bool, f func(adopted.Querier) error) error { return f(t.tx) })
	if err == nil {
		for _, o := range outcomes {
			delete(t.locked, dibs.Lease{ID: o.ID, Token: o.Token})
		}
	}
	return err
}

func (t *Tx) findClaims(ctx context.Context, q adopted.Querier, leases []dibs.Lease) (claims []*claim, err error) {
	if t.s.plan.LockOnly() {
		claims = make([]*claim, len(leases))
		for i, l := range leases {
			claims[i] = t.locked[l]
		}
		return claims, nil
	}
	claims, err = t.s.findClaims(ctx, q, leases)
	for i, c := range claims {
		if c != nil && t.own[leases[i].Token] {
			inTx := *c // a copy: other goroutines use c
			inTx.sameTx = true
			claims[i] = &inTx
		}
	}
	return claims, err
}
