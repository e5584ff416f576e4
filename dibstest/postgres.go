package dibstest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs/postgres"
)

// Postgres is an empty queue in a PostgreSQL database of the test's own, and a pool on that database,
// for handlers that run SQL of their own. The URL is that of any database of a server, whose user may
// create databases. pool.Config().ConnString() is the URL of the new one.
//
// When the test ends, both are closed and the database is dropped. Rows and transactions of the pool
// must be closed by then.
//
// The clock is the server's, which [Advance] cannot move; [admin.Admin].Edit moves a job instead.
func Postgres(t testing.TB, server string) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	address := database(ctx, t, server)
	if err := postgres.Migrate(ctx, address, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, pool, 10*time.Second) })
	store, err := postgres.New(ctx, pool, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store, pool
}

// database makes a database for the test, and returns its address.
func database(ctx context.Context, t testing.TB, server string) string {
	t.Helper()
	if server == "" {
		t.Fatal("dibstest.Postgres needs the URL of a server, such as postgres://postgres@localhost/postgres; is a variable of the environment not set?")
	}
	name := "dibstest_" + strings.ToLower(rand.Text())
	address, err := inDatabase(server, name)
	if err == nil {
		err = execute(ctx, server, "create database "+name)
	}
	if err != nil {
		t.Fatalf("dibstest.Postgres: make a database for the test: %v", explained(err))
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if err := execute(ctx, server, "drop database "+name+" with (force)"); err != nil {
			t.Errorf("dibstest.Postgres: drop the test's database: %v", err)
		}
	})
	return address
}

// explained adds to an error what can be done about it.
func explained(err error) error {
	var refused *pgconn.PgError
	var away *pgconn.ConnectError
	switch {
	case errors.As(err, &refused) && refused.Code == "42501":
		return fmt.Errorf("%w; give the role that right: alter role NAME createdb", err)
	case errors.As(err, &away) && !errors.As(err, &refused):
		return fmt.Errorf("%w; is the server running?", err)
	}
	return err
}

// inDatabase is an address, a URL or keywords with values, with another database.
func inDatabase(address, name string) (string, error) {
	if !strings.Contains(address, "://") {
		return address + " dbname=" + name, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the URL cannot be read") // its text may hold a password
	}
	q := u.Query()
	q.Del("dbname")
	q.Del("database")
	u.Path, u.RawQuery = "/"+name, q.Encode()
	return u.String(), nil
}

func execute(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// closePool fails a test that ends with connections in use, which would be waited for without end.
func closePool(t testing.TB, pool *pgxpool.Pool, wait time.Duration) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(wait):
		t.Errorf("dibstest.Postgres: the test ends with connections of its pool in use: %d; close rows and transactions", pool.Stat().AcquiredConns())
	}
}
