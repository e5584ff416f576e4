package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// These examples need a server, so a test runs them.

func ExampleOpen() {
	ctx := context.Background()
	url := os.Getenv("DIBS_DB") // postgres://user@host/database
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil {
		log.Fatal(err)
	}
	store, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ids, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "emails", Kind: "welcome", Payload: "ann"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("enqueued", ids[0].ID)
}

// A transaction of pgx, on the program's own pool: the row and the job, or neither.
func ExampleStore_Tx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DIBS_DB"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := postgres.New(ctx, pool, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "create table users (name text)"); err != nil {
			return err
		}
		_, err := store.Tx(tx).Enqueue(ctx, []dibs.NewJob{{Queue: "emails", Kind: "welcome", Payload: "bob"}})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	store.Wake("emails")
	fmt.Println("committed")
}

// A transaction of database/sql. Transactions of sqlx and GORM have the same two methods.
func ExampleStore_SQLTx() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DIBS_DB"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := postgres.Open(ctx, os.Getenv("DIBS_DB"), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	in := store.SQLTx(tx) // one for all calls in the transaction
	jobs, err := in.Claim(ctx, dibs.ClaimRequest{Queue: "emails", Worker: "w1", N: 1})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "insert into users (name) values ($1)", string(jobs[0].Payload)); err != nil {
		log.Fatal(err)
	}
	if err := in.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		log.Fatal(err) // and the user is not inserted
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("completed", jobs[0].ID)
}

func TestTheExamplesRun(t *testing.T) { // not in parallel: it sets a variable and redirects stdout
	t.Setenv("DIBS_DB", pgtest.URL(t))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	ExampleOpen()
	ExampleStore_Tx()
	ExampleStore_SQLTx()
	os.Stdout = stdout
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(read)
	if want := "enqueued 1\ncommitted\ncompleted 1\n"; err != nil || string(said) != want {
		t.Errorf("the examples said %q, %v, want %q", said, err, want)
	}
}
