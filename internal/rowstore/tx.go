package rowstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
)

// Tx is the part of a store that works in the caller's transaction: a dibs.Tx.
type Tx struct {
	store      *Store
	session    *Session
	mu         sync.Mutex // held by each call: a transaction has one connection
	verified   bool       // Engine.Verify has accepted the transaction
	rolledBack bool       // a call has found that the database had rolled the transaction back
	finished   []int64    // jobs whose outcomes were written
	left       bool       // ended_list has rows that the transaction has left
}

// SQLTx is the store inside a transaction of the caller's. Without one its calls say so.
func (s *Store) SQLTx(tx dibs.SQLTx) *Tx {
	if s == nil || checks.NoTx(tx) {
		return &Tx{store: s}
	}
	if wrap := s.dialect.Wrap; wrap != nil {
		tx = wrap(tx)
	} else if p, ok := tx.(Preparer); ok {
		tx = NewPrepared(p)
	}
	session := NewSession(context.Background(), tx, s.dialect)
	session.ownTokens = make(map[dibs.Token]bool)
	return &Tx{store: s, session: session}
}

// OwnTx is a transaction that InTx has begun. Commit says by its error whether the transaction took effect, unless that is
// database/sql's. Rollback has nothing to do after it.
type OwnTx interface {
	dibs.SQLTx
	Commit() error
	Rollback() error
}

// InTx runs f in a transaction of its own, and commits it if f returns nil.
func (s *Store) InTx(ctx context.Context, begin func(context.Context) (OwnTx, error), f func(dibs.Tx) error) error {
	if err := s.ready(ctx); err != nil {
		return s.wrap("transaction", err)
	}
	if err := checks.InTx(f); err != nil {
		return err
	}
	tx, err := begin(ctx)
	if err != nil {
		return s.wrap("transaction", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	t := s.SQLTx(tx)
	t.verified = true
	ended := func(err error) bool { return ctx.Err() != nil && errors.Is(err, sql.ErrTxDone) }
	if err := f(t); ended(err) {
		return s.wrap("transaction", ctx.Err())
	} else if err != nil {
		return err
	}
	if t.lost() { // f has kept the error of a call to itself
		return s.wrap("transaction", cmp.Or(ctx.Err(), ErrRolledBack))
	}
	if err := tx.Commit(); ended(err) {
		return s.wrap("transaction", ctx.Err())
	} else if err != nil {
		return s.wrap("transaction", err)
	}
	t.Wake()
	return nil
}

// lost reports whether a call has found that the database had rolled the transaction back.
func (t *Tx) lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rolledBack
}

// call runs f as one call, under a savepoint, so that a call that fails changes nothing. The
// statements that begin and end the call run even if ctx has ended. Settings are read anew
// for each call, as the caller may have rolled back the making of a queue.
func (t *Tx) call(ctx context.Context, f func(*Session) error) error {
	s, whole := t.session, context.WithoutCancel(ctx)
	err := ErrRolledBack
	if !t.rolledBack {
		err = t.store.engine.Open(whole, s.conn, t.verified)
	}
	if err != nil {
		t.rolledBack = t.rolledBack || errors.Is(err, ErrRolledBack)
		if t.rolledBack && s.certified() { // for one on another node, and not for what this one has done
			err = fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
		}
		return t.explainEnd(ctx, err)
	}
	clear(s.queues)
	s.ctx, s.clock.time = ctx, 0
	begun := false
	lost, err := s.apart(func(text string) error {
		_, err := s.conn.ExecContext(whole, text)
		return err
	}, func() (err error) {
		if begun = true; !t.verified {
			err = t.store.engine.Verify(ctx, s.conn)
			t.verified = err == nil
		}
		if err == nil {
			err = s.Run(f)
		}
		if err == nil {
			err = s.WriteTally()
		}
		return err
	})
	if t.rolledBack = lost && begun; t.rolledBack && !errors.Is(err, ErrRolledBack) {
		err = fmt.Errorf("%w; %w", err, ErrRolledBack)
	}
	if lost {
		err = t.explainEnd(ctx, err)
	}
	return err
}

// ErrRolledBack is the error of a transaction which the database has rolled back by itself.
var ErrRolledBack = fmt.Errorf("the database has rolled the transaction back: %w", sql.ErrTxDone)

// explainEnd returns sql.ErrTxDone, or the context's error, if err comes from the end of the
// transaction. database/sql itself only says that its statements are closed.
func (t *Tx) explainEnd(ctx context.Context, err error) error {
	rows, now := t.session.conn.QueryContext(context.WithoutCancel(ctx), "select 1")
	switch {
	case now == nil:
		_ = rows.Close() // the query only tests whether the transaction is open
		return err
	case !errors.Is(now, sql.ErrTxDone):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return now
}

// ready refuses calls without an open store, a transaction or a live context.
func (t *Tx) ready(ctx context.Context) error {
	if err := t.store.ready(ctx); err != nil {
		return err
	}
	if t.session == nil {
		return checks.ErrNoTx
	}
	return ctx.Err()
}

// do runs f as one call of the transaction.
func (t *Tx) do(ctx context.Context, op string, f func(*Session) error) error {
	if err := t.ready(ctx); err != nil {
		return t.store.wrap(op, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.store.inTurn(ctx, func() error { return t.call(ctx, f) })
	t.left = t.left || err == nil && t.session.flows.left
	return t.store.wrap(op, err)
}

// Wake implements dibs.Tx.
func (t *Tx) Wake() {
	if t.store == nil || t.session == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store.Wake(t.session.Wakes()...)
	clear(t.session.woken)
	t.store.NoteSettled(t.session)
	t.store.waits.Ended(func() []int64 { return t.finished })
	t.finished = nil
	if t.left && t.store.concurrent() != nil {
		ctx, stop := context.WithTimeout(context.Background(), busyFor)
		defer stop()
		t.store.settleLeft(ctx)
	}
	t.left = false
}

// Enqueue is Store.Enqueue in the transaction.
func (t *Tx) Enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	return t.store.middleware().Enqueue(ctx, jobs, t.enqueue)
}

func (t *Tx) enqueue(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	rows, err := checkJobs(jobs)
	if err != nil {
		return nil, err
	}
	var done []dibs.Enqueued
	err = t.do(ctx, "enqueue", func(s *Session) (err error) {
		done, err = s.enqueue(rows)
		return err
	})
	return done, err
}

// ChangeGroup is Store.ChangeGroup in the transaction.
func (t *Tx) ChangeGroup(ctx context.Context, queue, group string, f func(*dibs.Group) error) error {
	if err := settings.CanChangeGroup(queue, group, f); err != nil {
		return err
	}
	return t.do(ctx, "change group", func(s *Session) error {
		return s.changeGroup(queue, group, func(g dibs.Group) (dibs.Group, error) { return checks.ChangedGroup(g, f) })
	})
}

// Claim is Store.Claim in the transaction; other connections see it after the commit.
func (t *Tx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	placesAt, err := t.admit(ctx, r.Queue)
	if err != nil {
		return nil, err
	}
	var jobs []*dibs.RawJob
	err = t.do(ctx, "claim", func(s *Session) (err error) {
		s.placesAt = placesAt
		defer func() { s.placesAt = 0 }()
		if _, err := s.expire(); err != nil { // no other call can sweep while the transaction is open
			return err
		}
		if jobs, err = s.claim(r); len(jobs) > 0 {
			s.ownTokens[jobs[0].Token] = true // the token does no harm if the claim is rolled back
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// admit gives places in a transaction of the store's own: in the caller's transaction, others would not see the places
// until it ends.
func (t *Tx) admit(ctx context.Context, queue string) (placesAt int64, err error) {
	switch c := t.store.concurrent(); {
	case c == nil:
	case c.OneWriter:
		err = t.do(ctx, "claim", func(s *Session) (err error) {
			_, _, placesAt, err = s.admitAsked(queue)
			return err
		})
	default:
		placesAt, err = t.store.admitAsked(ctx, queue)
	}
	return placesAt, err
}

// Finish is Store.Finish in the transaction.
func (t *Tx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return t.store.finishAll(ctx, outcomes, func(outcomes []dibs.Outcome) (r refused, err error) {
		err = t.do(ctx, "finish", func(s *Session) (err error) {
			t.finished = append(t.finished, idsOf(outcomes)...)
			r, err = s.finish(outcomes)
			return err
		})
		return r, err
	})
}
