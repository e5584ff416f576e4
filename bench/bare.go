package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// The statements of a bare table: it has only what a queue must have.
const (
	bareTable  = "create table bare (id bigint generated always as identity primary key, payload text not null)"
	bareInsert = "insert into bare (payload) values ($1)"
	// bareDelete claims and deletes, like a queue that keeps no completed jobs.
	bareDelete = `delete from bare where ctid = any(array(
		select ctid from bare order by id limit $1 for update skip locked)) returning id, payload`
)

// barePayload is workload.Letter as JSON.
func barePayload(size int) string {
	text, _ := json.Marshal(workload.Letter(size)) // cannot fail
	return string(text)
}

// usualPayload is the payload of workloads that name no size.
var usualPayload = barePayload(workload.LetterBytes)

// openBare creates the bare table.
func openBare(ctx context.Context, place workload.Place, conns int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(place.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, bareTable); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// onBare measures with an empty bare table.
type onBare = func(context.Context, *workload.Bench, *pgxpool.Pool) (workload.Measured, error)

func bareCopy(chunk, size int) onBare {
	return func(ctx context.Context, b *workload.Bench, pool *pgxpool.Pool) (workload.Measured, error) {
		n := b.BulkJobs(size)
		return b.Timed(ctx, func() (int, error) { return n, bareFill(ctx, pool, size, n, chunk) })
	}
}

func bareFill(ctx context.Context, pool *pgxpool.Pool, size, n, chunk int) error {
	payload := barePayload(size)
	return workload.Share(ctx, workload.Enqueuers, (n+chunk-1)/chunk, func(ctx context.Context, i int) error {
		rows := pgx.CopyFromSlice(min(chunk, n-i*chunk), func(int) ([]any, error) { return []any{payload}, nil })
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"bare"}, []string{"payload"}, rows)
		return err
	})
}

func bareSingle(callers int) onBare {
	return func(ctx context.Context, b *workload.Bench, pool *pgxpool.Pool) (workload.Measured, error) {
		return b.Repeated(ctx, callers, func(ctx context.Context) error {
			_, err := pool.Exec(ctx, bareInsert, usualPayload)
			return err
		})
	}
}

// bareDrain claims and deletes batches of rows.
func bareDrain(batch, size int) onBare {
	return func(ctx context.Context, b *workload.Bench, pool *pgxpool.Pool) (workload.Measured, error) {
		n := b.BulkJobs(size)
		if err := bareFill(ctx, pool, size, n, 1000); err != nil {
			return workload.Measured{}, err
		}
		return b.Timed(ctx, func() (int, error) {
			return n, workload.Claimers(ctx, workload.ClaimerCount, n, func(ctx context.Context) (int, error) {
				rows, err := pool.Query(ctx, bareDelete, batch)
				if err != nil {
					return 0, err
				}
				claimed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
					ID      int64
					Payload string
				}])
				return len(claimed), err
			})
		})
	}
}

func bareLives(ctx context.Context, b *workload.Bench, pool *pgxpool.Pool) (workload.Measured, error) {
	return b.Repeated(ctx, workload.LivesCallers, func(ctx context.Context) error {
		if _, err := pool.Exec(ctx, bareInsert, usualPayload); err != nil {
			return err
		}
		return workload.UntilOne(ctx, func() (int, error) {
			tag, err := pool.Exec(ctx, bareDelete, 1)
			return int(tag.RowsAffected()), err
		})
	})
}
