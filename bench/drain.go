package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
)

// drainWorkloads are W3: 100,000 jobs through the worker, whose handlers do nothing.
// A job counts when its completion is durable.
func drainWorkloads() []workload {
	return []workload{
		{
			id: "W3", name: "drain 100,000, completed jobs kept", rows: throughput("60k; 3 x River, 0.5 x bare"),
			contenders: []contender{
				{"dibs", drained(onPostgres, true)},
				{"River", drained(asRiver, true)},
				{bare, bareDrain(100)},
			},
		},
		{
			id: "W3", name: "drain 100,000, completed jobs deleted", rows: throughput("80k; 0.5 x bare"),
			contenders: []contender{
				{"dibs", drained(onPostgres, false)},
				{bare, bareDrain(100)},
			},
		},
		{
			id: "W3", name: "drain 100,000, 1,000 at a time", rows: throughput(""),
			contenders: []contender{{bare, bareDrain(1000)}},
		},
	}
}

func drained(p product, keep bool) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		s, err := b.open(ctx, p)
		if err != nil {
			return measured{}, err
		}
		defer s.close()
		if !keep {
			if err := forget(ctx, s.system.(dibsSystem).db); err != nil {
				return measured{}, err
			}
		}
		n := b.count(100_000)
		if err := fill(ctx, s, n, 1000); err != nil {
			return measured{}, err
		}
		var stop func() error
		m, err := b.timed(ctx, func() (_ int, err error) {
			stop, err = drain(ctx, s, b.handlers, n, nil)
			return n, err
		})
		if stop != nil {
			err = errors.Join(err, stop())
		}
		return m, err
	}
}

// forget has completed jobs deleted at once.
func forget(ctx context.Context, db dibs.Database) error {
	_, err := db.SetQueue(ctx, dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(time.Duration)})
	return err
}

// drain runs a worker and returns when n jobs that count have been completed: all,
// or those whose group does. The worker runs on until stop.
func drain(ctx context.Context, s system, handlers, n int, counts func(group string) bool) (stop func() error, err error) {
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	stop, err = s.work(ctx, work{handlers: handlers, finished: func(group string) {
		if (counts == nil || counts(group)) && left.Add(-1) == 0 {
			close(done)
		}
	}})
	if err != nil {
		return nil, err
	}
	select {
	case <-done:
		return stop, nil
	case <-ctx.Done():
		return stop, ctx.Err()
	}
}

// bareDrain claims and deletes batches of a bare table's rows.
func bareDrain(batch int) func(context.Context, *bench) (measured, error) {
	return onBare(func(ctx context.Context, b *bench, pool *pgxpool.Pool) (measured, error) {
		n := b.count(100_000)
		if err := bareFill(ctx, pool, n, 1000); err != nil {
			return measured{}, err
		}
		return b.timed(ctx, func() (int, error) {
			return n, claimers(ctx, claimerCount, n, func(ctx context.Context) (int, error) {
				rows, err := pool.Query(ctx, bareDelete, batch)
				if err != nil {
					return 0, err
				}
				got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
					ID      int64
					Payload string
				}])
				return len(got), err
			})
		})
	})
}

// claimerCount is how many claimers there are where no worker claims.
const claimerCount = 4

// claimers has k goroutines call f, which says how many jobs it did, until n are done.
func claimers(ctx context.Context, k, n int, f func(context.Context) (int, error)) error {
	var left atomic.Int64
	left.Store(int64(n))
	group, ctx := errgroup.WithContext(ctx)
	for range k {
		group.Go(func() error {
			for left.Load() > 0 {
				did, err := f(ctx)
				if err != nil {
					return err
				}
				left.Add(-int64(did))
			}
			return nil
		})
	}
	return group.Wait()
}
