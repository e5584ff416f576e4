// Package orm uses dibs in transactions of sqlx and GORM, on PostgreSQL and MariaDB, for docs/howto/transactions.md. It is
// a module of its own, so that dibs does not depend on them.
package orm

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/mysql"
	"github.com/dibs-queue/dibs/postgres"
)

func TestMain(m *testing.M) { os.Exit(mytest.M{M: m}.Run()) }

// database is a store that also works in transactions of others.
type database interface {
	admin.Database
	SQLTx(tx dibs.SQLTx) dibs.Tx
}

// server is a fresh database with dibs' tables, as each of the packages has it.
type server struct {
	store  database
	sqlx   *sqlx.DB
	gorm   gorm.Dialector
	orders string // makes a table
}

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, s server)) {
	t.Run("PostgreSQL", func(t *testing.T) { test(t, onPostgreSQL(t)) })
	t.Run("MariaDB", func(t *testing.T) { test(t, onMariaDB(t)) })
}

func onPostgreSQL(t *testing.T) server {
	t.Helper()
	url := pgtest.URL(t)
	if err := postgres.Migrate(t.Context(), url, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	db, err := sqlx.ConnectContext(t.Context(), "pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return server{store, db, gormpostgres.Open(url), "create table orders (id bigserial primary key, customer text not null check (customer <> ''))"}
}

func onMariaDB(t *testing.T) server {
	t.Helper()
	store, err := mysql.Open(t.Context(), mytest.Address(t), mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	db := sqlx.NewDb(store.DB(), "mysql")
	dialector := gormmysql.New(gormmysql.Config{Conn: store.DB()})
	return server{store, db, dialector, "create table orders (id bigint auto_increment primary key, customer varchar(100) not null check (customer <> ''))"}
}

// hasJobs expects so many jobs in the queue "orders".
func hasJobs(t *testing.T, store database, want int) {
	t.Helper()
	page, err := store.List(t.Context(), admin.Filter{Queue: "orders"})
	if err != nil || len(page.Jobs) != want {
		t.Errorf("there are %d jobs, %v, want %d", len(page.Jobs), err, want)
	}
}

func placeOrderWithSqlx(ctx context.Context, db *sqlx.DB, store database, customer string) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var order int64
	if err := tx.GetContext(ctx, &order, tx.Rebind("insert into orders (customer) values (?) returning id"), customer); err != nil {
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
	onEach(t, func(t *testing.T, s server) {
		s.sqlx.MustExec(s.orders)
		if err := placeOrderWithSqlx(t.Context(), s.sqlx, s.store, "Ann"); err != nil {
			t.Error(err)
		}
		if err := placeOrderWithSqlx(t.Context(), s.sqlx, s.store, ""); err == nil {
			t.Error("an order without a customer was stored")
		}
		hasJobs(t, s.store, 1)
	})
}

// Order is a row, as GORM knows it.
type Order struct {
	ID       int64
	Customer string
}

func placeOrderWithGorm(ctx context.Context, db *gorm.DB, store database, customer string) error {
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

func openGorm(t *testing.T, dialector gorm.Dialector) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(dialector, &gorm.Config{})
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
	onEach(t, func(t *testing.T, s server) {
		db := openGorm(t, s.gorm)
		if err := placeOrderWithGorm(t.Context(), db, s.store, "Ann"); err != nil {
			t.Error(err)
		}
		nobody := errors.New("no such customer")
		err := db.Transaction(func(tx *gorm.DB) error { // it is within this one, and rolled back with it
			return errors.Join(placeOrderWithGorm(t.Context(), tx, s.store, "nobody"), nobody)
		})
		if !errors.Is(err, nobody) {
			t.Errorf("the transaction ended with %v", err)
		}
		hasJobs(t, s.store, 1)
		var orders int64
		if err := db.Model(&Order{}).Count(&orders).Error; err != nil || orders != 1 {
			t.Errorf("there are %d orders, %v", orders, err)
		}
	})
}

func confirmWithGorm(db *gorm.DB, store database) func(context.Context, *dibs.Job[int64]) error {
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
	onEach(t, func(t *testing.T, s server) {
		db := openGorm(t, s.gorm)
		if err := placeOrderWithGorm(t.Context(), db, s.store, "Ann"); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w := &dibs.Worker{Store: s.store, Queue: "orders", Hooks: dibs.Hooks{Finished: func(dibs.Attempt) { stop() }}}
		dibs.Handle(w, "confirm", confirmWithGorm(db, s.store))
		if err := w.Run(ctx); err != nil {
			t.Fatal(err)
		}
		job, err := s.store.Get(t.Context(), 1)
		var order Order
		if err == nil {
			err = db.First(&order).Error
		}
		if err != nil || job.State != dibs.Completed || order.Customer != "confirmed" {
			t.Errorf("the job is %v and the order %v, %v", job, order, err)
		}
	})
}
