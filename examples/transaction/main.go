// Command transaction shows work and data that change together, in PostgreSQL: an
// order is stored if and only if its confirmation is enqueued, and the confirmation
// is written if and only if its job is finished.
//
//	DIBS_DB=postgres://localhost/mydb go run ./examples/transaction
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	if err := run(context.Background(), os.Getenv("DIBS_DB")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil { // or once: dibs migrate --db URL
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := postgres.New(ctx, pool, postgres.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := pool.Exec(ctx, orders); err != nil {
		return err
	}

	if err := placeOrder(ctx, pool, store, "Ann"); err != nil {
		return err
	}
	if err := placeOrder(ctx, pool, store, ""); err != nil {
		fmt.Println("no order, and no job:", err)
	}
	return confirmOrders(ctx, pool, store)
}

const orders = `
create table if not exists orders (
	id bigint generated always as identity primary key,
	customer text not null check (customer <> ''),
	confirmed boolean not null default false
)`

// placeOrder stores an order and enqueues its confirmation, or does neither.
func placeOrder(ctx context.Context, pool *pgxpool.Pool, store *postgres.Store, customer string) error {
	var jobs dibs.Tx
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var order int64
		const insert = "insert into orders (customer) values ($1) returning id"
		if err := tx.QueryRow(ctx, insert, customer).Scan(&order); err != nil {
			return err
		}
		jobs = store.Tx(tx)
		_, err := jobs.Enqueue(ctx, []dibs.NewJob{{Queue: "orders", Kind: "confirm", Payload: order}})
		return err // not nil: no order and no job
	})
	if err == nil {
		jobs.Wake() // so that no worker has to find it by polling
	}
	return err
}

// confirmOrders runs one job. Its effect is in the database, so it happens exactly
// once: if the lease was lost meanwhile, Finish refuses and the update is undone.
func confirmOrders(ctx context.Context, pool *pgxpool.Pool, store *postgres.Store) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	worker := &dibs.Worker{Store: store, Queue: "orders"}
	dibs.Handle(worker, "confirm", func(ctx context.Context, job *dibs.Job[int64]) error {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			const update = "update orders set confirmed = true where id = $1"
			if _, err := tx.Exec(ctx, update, job.Payload); err != nil {
				return err
			}
			return job.FinishIn(ctx, store.Tx(tx), nil)
		})
		if err == nil {
			fmt.Printf("order %d is confirmed\n", job.Payload)
		}
		return err
	})
	worker.Hooks.Finished = func(dibs.Attempt) { stop() } // this program ends after one job
	return worker.Run(ctx)
}
