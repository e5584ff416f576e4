package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ids, err := store.Enqueue(ctx, []dibs.NewJob{{Queue: "emails", Kind: "welcome", Payload: "ann"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids[0].ID)
	// Output:
	// 1
}

// An order and its job are stored in one transaction of database/sql: both, or neither.
func ExampleStore_SQLTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "dibs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	db := store.DB()
	if _, err := db.ExecContext(ctx, "create table orders (id integer primary key, customer text)"); err != nil {
		log.Fatal(err)
	}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "insert into orders (customer) values ('Ann')"); err != nil {
		log.Fatal(err)
	}
	if _, err := store.SQLTx(tx).Enqueue(ctx, []dibs.NewJob{{Kind: "confirm", Payload: 1}}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	store.Wake(dibs.DefaultQueue)

	page, err := store.List(ctx, admin.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.Jobs[0].Kind, string(page.Jobs[0].Payload))
	// Output:
	// confirm 1
}
