package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// SQLTx makes dibs work inside a transaction of the caller's, which must be on the
// same file: one of DB, or of any other sql.DB of the same driver (there with
// _txlock=immediate and a busy_timeout, or its first write may find the file locked).
// Calls in a transaction on another file, or in a read-only one of DB, are refused; of
// another sql.DB, the driver does not tell which are meant to be read-only.
// Until it ends, nobody else writes to the file. Workers of this process learn of new jobs when Wake
// is called after the commit, or within milliseconds by themselves. A transaction belongs
// to one goroutine; each SQLTx of it gives the same Tx.
//
// SQLite itself rolls a transaction back when a context ends in the middle of one of its
// writing statements, or the disk is full, and runs each later statement of the caller's
// on its own. Begin the transaction with the context that its statements get, and they
// fail instead. Calls of the Tx do nothing then, and fail with sql.ErrTxDone.
func (s *Store) SQLTx(tx *sql.Tx) dibs.Tx {
	if s == nil || tx == nil {
		return &callerTx{store: s} // its calls say what is missing
	}
	key := weak.Make(tx)
	state, known := s.txs.LoadOrStore(key, newTxState())
	if !known {
		runtime.AddCleanup(tx, func(key weak.Pointer[sql.Tx]) { s.txs.Delete(key) }, key)
	}
	return s.newTx(tx, state.(*txState))
}

func (s *Store) newTx(tx *sql.Tx, state *txState) *callerTx {
	return &callerTx{store: s, session: newSession(context.Background(), tx, s.sql), txState: state}
}

// InTx runs f in a transaction of its own, and commits it if f returns nil. f must do
// everything by its Tx: the store's own writing methods wait for the transaction to end.
func (s *Store) InTx(ctx context.Context, f func(dibs.Tx) error) error {
	if err := s.ready(ctx); err != nil {
		return wrap("transaction", err)
	}
	if f == nil {
		return &dibs.InvalidError{Field: "f", Reason: "is nil; give the function that works in the transaction"}
	}
	tx, err := s.user.BeginTx(ctx, nil)
	if err != nil {
		return wrap("transaction", s.failed(ctx, err))
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	t := s.newTx(tx, newTxState())
	t.known = true
	if err := f(t); err != nil {
		if ctx.Err() != nil && errors.Is(err, sql.ErrTxDone) {
			return wrap("transaction", ctx.Err())
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return wrap("transaction", err)
	}
	s.wakeups.broadcast(t.session.wakes())
	return nil
}

// callerTx is the part of a store that works in the caller's transaction.
type callerTx struct {
	store   *Store
	session *session
	*txState
	completed map[int64]completion // as of this call: the jobs claimed here that Finish has not ended otherwise
}

// txState is what all callerTx of one transaction share. The store keeps it for as long
// as the transaction is in use, so nothing in it may lead to the transaction.
type txState struct {
	mu         sync.Mutex                          // held by each call: a transaction has one connection
	known      bool                                // that it may be written in, and on which file it is
	claims     map[dibs.Token]map[int64]completion // all of them, also those that a savepoint has undone
	rolledBack bool                                // by SQLite, as a call has found out
}

func newTxState() *txState {
	return &txState{claims: make(map[dibs.Token]map[int64]completion)}
}

// completion is how a job was left by Claim.
type completion struct {
	job *dibs.RawJob
	run int64 // its run time in microseconds, as counted
}

// do runs f as one call, under a savepoint: a call that fails has done nothing. What
// begins and ends the call is not cut off when ctx ends. Settings are read anew each
// time, for the caller may have rolled back to before a queue was made.
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
		return wrap(op, s.over(ctx, err))
	}
	before := s.mark()
	s.ctx, s.time = ctx, 0
	err := t.verify()
	if err == nil {
		err = t.recall()
	}
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
		return wrap(op, s.over(ctx, fmt.Errorf("%w; %w", err, errRolledBack)))
	}
	_ = s.runText("release dibs_call") // what it leaves is empty
	return wrap(op, err)
}

var errRolledBack = fmt.Errorf("SQLite has rolled the transaction back: %w", sql.ErrTxDone)

// begin sets the savepoint of a call. Where SQLite has rolled the transaction back, which
// database/sql does not learn, a savepoint would begin a transaction, and its release commit it.
// Only "begin" tells by a result code, at 2 µs: it fails inside of a transaction.
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

// over says it when the reason for an error is that the transaction has ended, as it
// does with its context: of its statements database/sql only says that they are closed.
func (s *session) over(ctx context.Context, err error) error {
	st, now := s.conn.PrepareContext(context.WithoutCancel(ctx), "select 1")
	switch {
	case now == nil:
		_ = st.Close() // it did nothing
		return err
	case !errors.Is(now, sql.ErrTxDone):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return now
}

// recall finds out which jobs the transaction has claimed and thereby completed. The
// rows of its claims say so, for the caller's savepoints undo them, too. Until the commit
// each call keeps them from the sweep; the first sweep after it forgets them.
func (t *callerTx) recall() error {
	s := t.session
	t.completed, s.held = make(map[int64]completion), make(map[group]int)
	for token, jobs := range t.claims {
		now, err := s.now()
		if err != nil {
			return err
		}
		rows, err := s.claimRows("check_later", token[:], now+1)
		if err != nil {
			return err
		}
		for _, row := range rows {
			for _, id := range row.ids {
				t.completed[id] = jobs[id]
				s.held[group{jobs[id].job.Queue, jobs[id].job.Group}]++
			}
		}
	}
	return nil
}

// keep writes down which jobs of a claim are completed by it.
func (t *callerTx) keep(token dibs.Token) error {
	s := t.session
	if _, err := s.exec("forget_claim", token[:]); err != nil {
		return err
	}
	var ids []int64
	var j *dibs.RawJob
	for id, c := range t.completed {
		if c.job.Token == token {
			ids, j = append(ids, id), c.job
		}
	}
	if j == nil {
		return nil
	}
	_, err := s.exec("log_claim", token[:], j.Queue, j.Worker, s.time+1, jsonIDs(ids))
	return err
}

// Enqueue is Store.Enqueue in the transaction.
func (t *callerTx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
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

// txLease is far longer than a transaction should last: its jobs are completed by
// then, and only the fence of a Finish in the same transaction asks for it.
const txLease = dibs.MaxLease

// Claim takes due jobs and completes them at once; nobody sees it before the commit.
func (t *callerTx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	r.Lease = txLease
	var jobs []*dibs.RawJob
	err := t.do(ctx, "claim", func(s *session) (err error) {
		jobs, err = s.claim(r)
		if err != nil || len(jobs) == 0 {
			return err
		}
		return t.complete(jobs)
	})
	return jobs, err
}

// complete finishes the jobs just claimed. Their places in groups and under a
// concurrency limit stay taken until the commit; the wake row lets the next claim
// after it give them to others.
func (t *callerTx) complete(jobs []*dibs.RawJob) error {
	s := t.session
	token, claim := jobs[0].Token, make(map[int64]completion, len(jobs))
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
		s.held[group{j.Queue, j.Group}]++
		kept := *j // the caller may change his
		claim[j.ID] = completion{job: &kept, run: max(0, s.time-j.ClaimedAt.UnixMicro())}
		t.completed[j.ID] = claim[j.ID]
		if j.Group == "" {
			continue
		}
		s.woken[j.Queue] = true
		if _, err := s.exec("wake", j.Queue, j.Group); err != nil {
			return err
		}
	}
	t.claims[token] = claim
	if _, err := s.finish(outcomes); err != nil {
		return err
	}
	return t.keep(token)
}

// Finish is Store.Finish in the transaction. For a job that Claim took in the same
// transaction it replaces the completion.
func (t *callerTx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes, err := checks.Outcomes(outcomes)
	if err != nil {
		return err
	}
	var lost []int64
	err = t.do(ctx, "finish", func(s *session) (err error) {
		changed := make(map[dibs.Token]bool)
		for _, o := range outcomes {
			if c, ok := t.completed[o.ID]; ok && c.job.Token == o.Token {
				if err := t.uncomplete(c.job); err != nil {
					return err
				}
				changed[o.Token] = true
			}
		}
		if lost, err = s.finish(outcomes); err != nil {
			return err
		}
		for token := range changed {
			if err := t.keep(token); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return leaseLost(lost)
}

// uncomplete makes a job that this transaction claimed a running one again. Its
// completion may have deleted it, so it is made anew from what Claim returned.
func (t *callerTx) uncomplete(j *dibs.RawJob) error {
	s := t.session
	now, err := s.now()
	if err != nil {
		return err
	}
	kept, err := s.exec("remove_finished", j.ID)
	if err != nil {
		return err
	}
	q, err := s.queue(j.Queue)
	if err != nil {
		return err
	}
	gate := gateReady
	if q.Concurrency > 0 {
		gate = gateCounted
	}
	holds, err := s.canHold(j.Queue, j.UniqueKey, j.UniqueUntil, j.Attempt)
	if err != nil {
		return err
	}
	if _, err := s.exec("restore", j.ID, j.Queue, j.Kind, j.Priority, j.RunAt.UnixMicro(), gate, j.Attempt, j.Excused, j.MaxAttempts,
		null(j.Group), null(j.UniqueKey), null(string(j.UniqueUntil)), holds,
		j.Token[:], now+micro(txLease), j.Worker, j.CancelRequested, j.CreatedAt.UnixMicro(), j.ClaimedAt.UnixMicro(),
		nullJSON(j.Metadata), string(j.Payload), errorText(j.Errors)); err != nil {
		return err
	}
	s.count(j.Queue, func(c *tally) {
		c.running++
		c.completed -= kept
		c.succeeded--
		c.run -= t.completed[j.ID].run
	})
	s.held[group{j.Queue, j.Group}]--
	delete(t.completed, j.ID)
	return nil
}
