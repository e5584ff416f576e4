// Package orm uses dibs in transactions of sqlx and GORM, for docs/howto/transactions.md. It is
// a module of its own, so that dibs does not depend on them.
package orm

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// newStore makes dibs' schema in a fresh database.
func newStore(t *testing.T) (store *postgres.Store, url string) {
	t.Helper()
	url = pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, url
}

// hasJobs expects so many jobs in the queue "orders".
func hasJobs(t *testing.T, store *postgres.Store, want int) {
	t.Helper()
	page, err := store.List(t.Context(), admin.Filter{Queue: "orders"})
	if err != nil || len(page.Jobs) != want {
		t.Errorf("there are %d jobs, %v, want %d", len(page.Jobs), err, want)
	}
}

func placeOrderWithSqlx(ctx context.Context, db *sqlx.DB, store *postgres.Store, customer string) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var order int64
	if err := tx.GetContext(ctx, &order, "insert into orders (customer) values ($1) returning id", customer); err != nil {
		return err
	}
	if _, err := store.SQLTx(tx).Enqueue(ctx, []dibs.NewJob{{Queue: "orders", Kind: "confirm", Payload: order}}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	store.Wake("orders")
	return nil
}

func TestSqlx(t *testing.T) {
	store, url := newStore(t)
	db, err := sqlx.ConnectContext(t.Context(), "pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.MustExec("create table orders (id bigserial primary key, customer text not null check (customer <> ''))")
	if err := placeOrderWithSqlx(t.Context(), db, store, "Ann"); err != nil {
		t.Error(err)
	}
	if err := placeOrderWithSqlx(t.Context(), db, store, ""); err == nil {
		t.Error("an order without a customer was stored")
	}
	hasJobs(t, store, 1)
}

// Order is a row, as GORM knows it.
type Order struct {
	ID       int64
	Customer string
}

func placeOrderWithGorm(ctx context.Context, db *gorm.DB, store *postgres.Store, customer string) error {
	err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		order := Order{Customer: customer}
		if err := tx.Create(&order).Error; err != nil {
			return err
		}
		_, err := store.SQLTx(tx.Statement.ConnPool).Enqueue(ctx, []dibs.NewJob{{Queue: "orders", Kind: "confirm", Payload: order.ID}})
		return err
	})
	if err != nil {
		return err
	}
	store.Wake("orders")
	return nil
}

func openGorm(t *testing.T, url string) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(gormpostgres.Open(url), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if sqlDB, err := db.DB(); err != nil || sqlDB.Close() != nil {
			t.Errorf("GORM's connections are not closed: %v", err)
		}
	})
	if err := db.AutoMigrate(&Order{}); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestGorm(t *testing.T) {
	store, url := newStore(t)
	db := openGorm(t, url)
	if err := placeOrderWithGorm(t.Context(), db, store, "Ann"); err != nil {
		t.Error(err)
	}
	nobody := errors.New("no such customer")
	err := db.Transaction(func(tx *gorm.DB) error { // it is within this one, and rolled back with it
		return errors.Join(placeOrderWithGorm(t.Context(), tx, store, "nobody"), nobody)
	})
	if !errors.Is(err, nobody) {
		t.Errorf("the transaction ended with %v", err)
	}
	hasJobs(t, store, 1)
	var orders int64
	if err := db.Model(&Order{}).Count(&orders).Error; err != nil || orders != 1 {
		t.Errorf("there are %d orders, %v", orders, err)
	}
}

func confirmWithGorm(db *gorm.DB, store *postgres.Store) func(context.Context, *dibs.Job[int64]) error {
	return func(ctx context.Context, job *dibs.Job[int64]) error {
		return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if err := tx.Model(&Order{ID: job.Payload}).Update("customer", "confirmed").Error; err != nil {
				return err
			}
			return job.FinishIn(ctx, store.SQLTx(tx.Statement.ConnPool), nil)
		})
	}
}

func TestFinishingInATransactionOfGorm(t *testing.T) {
	store, url := newStore(t)
	db := openGorm(t, url)
	if err := placeOrderWithGorm(t.Context(), db, store, "Ann"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &dibs.Worker{Store: store, Queue: "orders", Hooks: dibs.Hooks{Finished: func(dibs.Attempt) { stop() }}}
	dibs.Handle(w, "confirm", confirmWithGorm(db, store))
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	job, err := store.Get(t.Context(), 1)
	var order Order
	if err == nil {
		err = db.First(&order).Error
	}
	if err != nil || job.State != dibs.Completed || order.Customer != "confirmed" {
		t.Errorf("the job is %v and the order %v, %v", job, order, err)
	}
}
