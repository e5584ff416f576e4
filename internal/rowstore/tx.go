package rowstore

import (
	"context"
	"sync"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Tx is the part of a store that works in the caller's transaction: a dibs.Tx.
type Tx struct {
	store    *Store
	session  *Session
	call     Call
	mu       sync.Mutex // held by each call: a transaction has one connection
	finished []int64    // jobs whose outcomes were written
}

// Call runs f as one call in a transaction of the caller's, with the session of NewTx. If f fails, it has changed nothing.
// A Tx makes one call at a time.
type Call func(ctx context.Context, f func(*Session) error) error

// NewTx makes a Tx. Without a session there is no transaction, and its calls say so.
func (s *Store) NewTx(session *Session, call Call) *Tx {
	if session != nil {
		session.ownTokens = make(map[dibs.Token]bool)
	}
	return &Tx{store: s, session: session, call: call}
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
	return t.store.wrap(op, t.call(ctx, f))
}

// Wake implements dibs.Tx.
func (t *Tx) Wake() {
	if t.store == nil || t.session == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store.engine.Listeners().Wake(t.session.Wakes()...)
	clear(t.session.woken)
	t.store.waits.Ended(func() []int64 { return t.finished })
	t.finished = nil
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

// SetGroup is Store.SetGroup in the transaction.
func (t *Tx) SetGroup(ctx context.Context, queue, group string, c dibs.GroupChange) error {
	if err := checks.Group(queue, group, c); err != nil {
		return err
	}
	return t.do(ctx, "set group", func(s *Session) error { return s.changeGroup(queue, group, c) })
}

// Claim is Store.Claim in the transaction; other connections see it after the commit.
func (t *Tx) Claim(ctx context.Context, r dibs.ClaimRequest) ([]*dibs.RawJob, error) {
	if err := checks.Claim(&r); err != nil {
		return nil, err
	}
	if err := t.admit(ctx, r.Queue); err != nil {
		return nil, err
	}
	var jobs []*dibs.RawJob
	err := t.do(ctx, "claim", func(s *Session) (err error) {
		if _, err := s.expire(); err != nil { // no other call can sweep while the transaction is open
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

// admit gives places in a transaction of the store's own: until the caller's ends, others would not see what it gave.
func (t *Tx) admit(ctx context.Context, queue string) (err error) {
	switch c := t.store.concurrent(); {
	case c == nil:
	case c.OneWriter:
		err = t.do(ctx, "claim", func(s *Session) error { return s.admitAsked(queue) })
	default:
		_, err = t.store.admitAsked(ctx, queue)
	}
	return err
}

// Finish is Store.Finish in the transaction.
func (t *Tx) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	return finishAll(ctx, outcomes, func(outcomes []dibs.Outcome) (r refused, err error) {
		err = t.do(ctx, "finish", func(s *Session) (err error) {
			t.finished = append(t.finished, idsOf(outcomes)...)
			r, err = s.finish(outcomes)
			return err
		})
		return r, err
	})
}
