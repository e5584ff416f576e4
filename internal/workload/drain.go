package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
)

// Drain is W3: a worker whose handlers do nothing. A job counts when its completion is
// durable. Only dibs can delete completed jobs rather than keep them.
func (b *Bench) Drain(keep bool) Workload {
	name := "drain " + thousands(b.BulkJobs()) + " jobs, completed ones "
	if keep {
		name += "kept"
	} else {
		name += "deleted"
	}
	return Workload{
		ID: "W3", Name: name, Rows: throughput(), Conns: conns(1, b.Pool), Takes: timeFor(b.BulkJobs(), 25_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) { return b.drained(ctx, o, keep) })
		},
	}
}

func (b *Bench) drained(ctx context.Context, o *opened, keep bool) (Measured, error) {
	if !keep {
		if err := deleteCompleted(ctx, o.System.(dibsSystem).db); err != nil {
			return Measured{}, err
		}
	}
	n := b.BulkJobs()
	if err := fill(ctx, o, n, fillChunk); err != nil {
		return Measured{}, err
	}
	return b.drain(ctx, o, n)
}

// drain measures a worker that completes n jobs.
func (b *Bench) drain(ctx context.Context, s System, n int) (Measured, error) {
	stop := func() error { return nil }
	m, err := b.Timed(ctx, func() (_ int, err error) {
		stop, err = drain(ctx, s, b.Handlers, n, nil)
		return n, err
	})
	return m, errors.Join(err, stop())
}

// deleteCompleted makes the queue delete completed jobs at once.
func deleteCompleted(ctx context.Context, db dibs.Database) error {
	_, err := db.SetQueue(ctx, dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(time.Duration)})
	return err
}

// drain runs a worker and returns when n jobs have been completed, or with counts n jobs of
// groups that count. The worker runs on until stop, which is never nil.
func drain(ctx context.Context, s System, handlers, n int, counts func(group string) bool) (stop func() error, err error) {
	var remaining atomic.Int64
	remaining.Store(int64(n))
	done := make(chan struct{})
	stop, err = s.Work(ctx, Work{Handlers: handlers, Finished: func(group string) {
		if (counts == nil || counts(group)) && remaining.Add(-1) == 0 {
			close(done)
		}
	}})
	if err != nil {
		return func() error { return nil }, err
	}
	select {
	case <-done:
		return stop, nil
	case <-ctx.Done():
		return stop, ctx.Err()
	}
}
