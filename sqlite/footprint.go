package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Locks claims up to n jobs of a queue in a transaction that it rolls back, and reports
// what that locked, for how long, and which other calls could go on meanwhile. The command
// dibs locks shows it. A queue that does not exist gives ErrUnknownQueue.
func (s *Store) Locks(ctx context.Context, queue string, n int) (f admin.Footprint, err error) {
	r := dibs.ClaimRequest{Queue: queue, Worker: "dibs locks", N: n}
	if err := checks.Claim(&r); err != nil {
		return f, err
	}
	if err := s.ready(ctx); err != nil {
		return f, wrap("locks", err)
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return f, wrap("locks", err)
	}
	defer tx.Rollback() // what Locks tries is never committed
	start := time.Now()
	claimed, paused, err := rowstore.NewSession(ctx, rowstore.NewPrepared(tx), &s.sql.Dialect).TryClaim(r)
	if errors.Is(err, dibs.ErrUnknownQueue) {
		return f, checks.Failed("locks", err)
	}
	f = admin.Footprint{Queue: r.Queue, Paused: paused, Claimed: claimed, Took: time.Since(start)}
	if err != nil || f.Claimed == 0 {
		return f, wrap("locks", err)
	}
	f.Locks = []admin.Lock{{On: "the file", Mode: "WRITE", Means: "other writers wait; readers never do"}}
	f.Others, err = s.others(ctx, r.Queue)
	return f, wrap("locks", err)
}

// others makes the calls that other processes may make while the claim's transaction is open.
func (s *Store) others(ctx context.Context, queue string) (all []admin.Other, err error) {
	for _, try := range []struct {
		what string
		do   func() error
	}{
		{"claim, enqueue, extend, finish, set", func() error { return s.writeOnce(ctx) }},
		{"stats", func() error {
			_, err := s.Stats(ctx)
			return err
		}},
		{"list", func() error {
			_, err := s.List(ctx, admin.Filter{Queue: queue})
			return err
		}},
	} {
		start := time.Now()
		err := try.do()
		o := admin.Other{What: try.what, Took: time.Since(start)}
		if busy(err) {
			o.WaitsFor, err = "the end of the claim", nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// writeOnce begins a write transaction as another process would, and fails at once if it would have to wait.
func (s *Store) writeOnce(ctx context.Context) error {
	conn, err := s.writer.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{})
	if err != nil {
		return err
	}
	return tx.Rollback()
}
