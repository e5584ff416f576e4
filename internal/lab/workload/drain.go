package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Drain is W3: a worker whose handlers do nothing. A job counts when its completion is
// durable. dibs is told to delete completed jobs rather than keep them; other systems do as
// they always do.
func (b *Bench) Drain(size int, keep bool) Workload {
	name := "drain " + b.bulk(size) + ", completed ones "
	if keep {
		name += "kept"
	} else {
		name += "deleted"
	}
	return b.drained(name, size, keep, b.Handlers)
}

// defaultHandlers is the number of handlers that a worker of dibs runs at once by default.
const defaultHandlers = 10

// FewHandlers is W3 with a worker as most queues have one.
func (b *Bench) FewHandlers() Workload {
	return b.drained(fmt.Sprintf("drain %s with %d handlers", b.bulk(LetterBytes), defaultHandlers), LetterBytes, true, defaultHandlers)
}

func (b *Bench) drained(name string, size int, keep bool, handlers int) Workload {
	return Workload{
		ID: "W3", Name: name, Rows: throughput(), Conns: conns(1, b.Pool), Takes: b.bulkTakes(size, 25_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				if s, ok := o.System.(dibsSystem); ok && !keep {
					if err := deleteCompleted(ctx, s.db); err != nil {
						return Measured{}, err
					}
				}
				n := b.BulkJobs(size)
				if err := fill(ctx, o, Letter(size), n, fillChunk); err != nil {
					return Measured{}, err
				}
				return b.drain(ctx, o, handlers, n)
			})
		},
	}
}

// drain measures a worker that completes n jobs.
func (b *Bench) drain(ctx context.Context, s System, handlers, n int) (Measured, error) {
	stop := func() error { return nil }
	m, err := b.Timed(ctx, func() (_ int, err error) {
		stop, err = drain(ctx, s, handlers, n, nil)
		return n, err
	})
	return m, errors.Join(err, stop())
}

// deleteCompleted makes the queue delete completed jobs at once.
func deleteCompleted(ctx context.Context, db admin.Database) error {
	_, err := db.ChangeQueue(ctx, dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(time.Duration)}.Apply)
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
