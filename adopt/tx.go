package adopt

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Tx works inside a transaction of the caller's ("ClaimTx"): take, work, finish, and
// commit, all or nothing. Rolling back, or losing the connection, gives the rows back at
// once, as if they had not been claimed. Other claims pass over them meanwhile.
//
// Finish says how each ended, in the same transaction. What is not finished by the
// commit stays claimed until its lease ends; or, where a claim writes nothing because the
// mapping neither names columns for it nor has a side table, is available again.
//
// Of each group with claimed rows, others claim nothing until the transaction ends; where the
// queue has a limit, of the queue. With either, on PostgreSQL it must be READ COMMITTED. On SQLite begin the transaction as one that writes (_txlock=immediate), or its
// first write may find the file locked.
//
// Use one Tx for all calls in a transaction: while that is open, the leases of what the Tx has
// claimed do not end. Calls of several goroutines wait for each other.
type Tx struct {
	s   *Store
	tx  adopted.Querier
	mu  sync.Mutex          // held by each call
	own map[dibs.Token]bool // claims made here; nil: their leases end as elsewhere
	// Where a row lock alone holds a claim, nothing else tells what this transaction has claimed.
	has map[dibs.Lease]*claim
}

// SQLTx makes the store work inside a transaction of the database that it was opened with: a
// *sql.Tx, or what has its ExecContext and QueryContext, as transactions of sqlx and GORM do.
func (s *Store) SQLTx(tx checks.SQLTx) *Tx {
	t := s.within(callers{tx})
	t.own = map[dibs.Token]bool{}
	return t
}

// callers is a caller's transaction. Statements are prepared only to verify a mapping, before that.
type callers struct{ checks.SQLTx }

func (callers) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.ErrUnsupported
}

func (s *Store) within(q adopted.Querier) *Tx {
	return &Tx{s: s, tx: q, has: map[dibs.Lease]*claim{}}
}

// Within is for package advice, which tries a mapping in a transaction that it rolls back.
func Within(p *adopted.Plan, q adopted.Querier) *Tx { return newStore(p).within(q) }

// Claim takes rows, as Store.Claim does. Nobody waits for it but, on SQLite, every other writer.
func (t *Tx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.s
	take, err := s.checkClaim(&r)
	if err != nil || take == nil {
		return nil, err
	}
	var has []string
	for _, c := range t.has {
		has = append(has, c.key)
	}
	take.values["has"] = texts(has)
	if s.do.Turn != nil || s.do.Alone != nil {
		level, err := adopted.QueryAll(ctx, t.tx, "select pg_catalog.current_setting('transaction_isolation')")
		if err != nil {
			return nil, adopted.Classify("claim", err)
		}
		if level[0][0] != "read committed" {
			return nil, adopted.Invalid("transaction", "must be READ COMMITTED to claim where groups or the queue have a limit, is %s: its snapshot does not show what runs by now", level[0][0])
		}
	}
	rows, err := s.claimIn(ctx, t.tx, take, r.N)
	if err != nil {
		return nil, adopted.Classify("claim", err)
	}
	jobs := s.jobs(rows, take)
	if len(jobs) > 0 && t.own != nil {
		t.own[jobs[0].Token] = true
	}
	if s.plan.LockOnly() {
		for _, j := range jobs {
			t.has[j.Lease()] = s.held.get(j.Lease())
			s.held.drop(j.Lease()) // outside of the transaction it is nothing
		}
	}
	return jobs, nil
}

// Finish is Store.Finish in the transaction. On ErrLeaseLost the caller must roll back.
func (t *Tx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.s.finish(ctx, outcomes, t.tx, t.find, func(_ bool, f func(adopted.Querier) error) error { return f(t.tx) })
	if err == nil {
		for _, o := range outcomes {
			delete(t.has, dibs.Lease{ID: o.ID, Token: o.Token})
		}
	}
	return err
}

func (t *Tx) find(ctx context.Context, q adopted.Querier, leases []dibs.Lease) (claims []*claim, err error) {
	if t.s.plan.LockOnly() {
		claims = make([]*claim, len(leases))
		for i, l := range leases {
			claims[i] = t.has[l]
		}
		return claims, nil
	}
	claims, err = t.s.find(ctx, q, leases)
	for i, c := range claims {
		if c != nil && t.own[leases[i].Token] {
			own := *c // others of the process share it
			own.own = true
			claims[i] = &own
		}
	}
	return claims, err
}
