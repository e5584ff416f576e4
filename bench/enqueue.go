package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What the server does with a table that has no more than a queue must have.
const (
	bareTable  = "create table bare (id bigint generated always as identity primary key, payload text not null)"
	bareInsert = "insert into bare (payload) values ($1)"
	// bareDelete claims and deletes: what a queue that forgets its jobs at once would do.
	bareDelete = `delete from bare where ctid = any(array(
		select ctid from bare order by id limit $1 for update skip locked)) returning id, payload`
)

// barePayload is what letter is as JSON.
const barePayload = `{"to":"someone@example.com","subject":"Welcome","text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`

// enqueuers is how many callers bring a bulk of jobs at once: more than a small machine
// has cores, as every call waits for the disk, and such that all get as many chunks.
const enqueuers = 5

// enqueueWorkloads are W1, jobs in bulk, and W2, single ones.
func enqueueWorkloads() []workload {
	var list []workload
	for _, c := range []struct {
		chunk  int
		target string
	}{
		{1000, "150k; 3 x River, 0.5 x bare"},
		{10_000, "200k; 3 x River, 0.5 x bare"},
	} {
		list = append(list, workload{
			id:   "W1",
			name: fmt.Sprintf("enqueue 100,000, chunks of %d", c.chunk),
			rows: throughput(c.target),
			contenders: []contender{
				{"dibs", bulk(onPostgres, c.chunk)},
				{"River", bulk(asRiver, c.chunk)},
				{bare, bareCopy(c.chunk)},
			},
		})
	}
	for _, c := range []struct {
		callers int
		target  string
	}{
		{64, "30k; 10 x River"},
		{1000, "60k; 10 x River"},
	} {
		list = append(list, workload{
			id:   "W2",
			name: fmt.Sprintf("enqueue single jobs, %d callers", c.callers),
			rows: throughput(c.target),
			contenders: []contender{
				{"dibs", single(onPostgres, c.callers)},
				{"River", single(asRiver, c.callers)},
				{bare, bareSingle(c.callers)},
			},
		})
	}
	return list
}

// bulk enqueues 100,000 jobs in chunks.
func bulk(p product, chunk int) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		s, err := b.open(ctx, p)
		if err != nil {
			return measured{}, err
		}
		defer s.close()
		if err := s.enqueue(ctx, letters(2)); err != nil { // connects
			return measured{}, err
		}
		n := b.count(100_000)
		return b.timed(ctx, func() (int, error) { return n, fill(ctx, s, n, chunk) })
	}
}

// fill enqueues n jobs in chunks.
func fill(ctx context.Context, s system, n, chunk int) error {
	jobs := letters(min(chunk, n))
	return share(ctx, enqueuers, (n+chunk-1)/chunk, func(ctx context.Context, i int) error {
		return s.enqueue(ctx, jobs[:min(chunk, n-i*chunk)])
	})
}

func bareCopy(chunk int) func(context.Context, *bench) (measured, error) {
	return onBare(func(ctx context.Context, b *bench, pool *pgxpool.Pool) (measured, error) {
		n := b.count(100_000)
		return b.timed(ctx, func() (int, error) { return n, bareFill(ctx, pool, n, chunk) })
	})
}

func bareFill(ctx context.Context, pool *pgxpool.Pool, n, chunk int) error {
	return share(ctx, enqueuers, (n+chunk-1)/chunk, func(ctx context.Context, i int) error {
		rows := pgx.CopyFromSlice(min(chunk, n-i*chunk), func(int) ([]any, error) { return []any{barePayload}, nil })
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"bare"}, []string{"payload"}, rows)
		return err
	})
}

// single enqueues jobs one by one from many callers.
func single(p product, callers int) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		s, err := b.open(ctx, p)
		if err != nil {
			return measured{}, err
		}
		defer s.close()
		return b.repeated(ctx, callers, func(ctx context.Context) error { return s.enqueue(ctx, letters(1)) })
	}
}

func bareSingle(callers int) func(context.Context, *bench) (measured, error) {
	return onBare(func(ctx context.Context, b *bench, pool *pgxpool.Pool) (measured, error) {
		return b.repeated(ctx, callers, func(ctx context.Context) error {
			_, err := pool.Exec(ctx, bareInsert, barePayload)
			return err
		})
	})
}

// repeated measures f called by so many callers again and again, once every
// connection is open.
func (b *bench) repeated(ctx context.Context, callers int, f func(context.Context) error) (measured, error) {
	if _, err := calls(ctx, callers, b.duration(500*time.Millisecond), f); err != nil {
		return measured{}, err
	}
	return b.timed(ctx, func() (int, error) { return calls(ctx, callers, b.duration(5*time.Second), f) })
}
