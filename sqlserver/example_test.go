package sqlserver_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlserver"
)

// Each of these replaces a procedure that docs/sqlserver.md shows beside it.
func Example() {
	ctx := context.Background()
	store, err := sqlserver.Open(ctx, "sqlserver://app:secret@db:1433?database=shop", sqlserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	worker := &dibs.Worker{Store: store, Concurrency: 10}
	dibs.Handle(worker, "letter", func(ctx context.Context, job *dibs.Job[string]) error {
		return log.Output(1, "print "+job.Payload)
	})
	_ = worker.Run(ctx)
}

// claimToken is a queue whose jobs have priorities, a lease of 15 minutes and three attempts.
func claimToken(ctx context.Context, store *sqlserver.Store) error {
	_, err := store.ChangeQueue(ctx, "letters", dibs.QueueChange{Lease: new(15 * time.Minute), MaxAttempts: new(3)}.Apply)
	if err != nil {
		return err
	}
	_, err = store.Enqueue(ctx, []dibs.NewJob{{Queue: "letters", Kind: "letter", Priority: new(10), Payload: "Ann"}})
	return err
}

// groups is a queue in which two jobs of a group never run together.
func groups(ctx context.Context, store *sqlserver.Store) error {
	_, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "work", Kind: "bill", Group: "customer 7", Payload: 7}})
	return err
}

// inTransaction enqueues a job if and only if the order is stored.
func inTransaction(ctx context.Context, store *sqlserver.Store, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "insert into orders (id) values (@p1)", 7); err != nil {
		return err
	}
	if _, err := store.SQLTx(tx).Enqueue(ctx, []dibs.NewJob{{Queue: "letters", Kind: "letter", Payload: "Ann"}}); err != nil {
		return err
	}
	return tx.Commit()
}

var _ = []any{claimToken, groups, inTransaction}
