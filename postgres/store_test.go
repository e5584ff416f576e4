package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/storetest"
)

func TestMain(m *testing.M) {
	needs.Split()
	os.Exit(m.Run())
}

// The search path puts callers' own tables into the test's schema, too.
func TestStore(t *testing.T) {
	needs.RaceInPart(t)
	all := newSchemas(t, "test")
	server := all.server
	storetest.Run(t, storetest.PostgreSQL, func(t testing.TB) storetest.Setup {
		o := postgres.Options{Schema: all.take(t), MaxConns: 6}
		var stores []*postgres.Store
		open := func(t testing.TB) *postgres.Store {
			s, err := postgres.Open(t.Context(), server, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			markIfAsked(s)
			stores = append(stores, s)
			return s
		}
		store := open(t)
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("search_path", o.Schema)
		u.RawQuery = q.Encode()
		db, err := sql.Open("pgx", u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return storetest.Setup{
			Store:   store,
			Another: func(t testing.TB) admin.Database { return open(t) },
			Begin: map[string]storetest.Begin{
				"sql": storetest.SQL(db, store.SQLTx),
				"pgx": begin(u.String(), store),
			},
			Pass: func(ctx context.Context, d time.Duration) error { return postgres.Pass(ctx, d, stores...) },
		}
	})
}

// begin begins transactions of a caller that uses pgx.
func begin(url string, store *postgres.Store) storetest.Begin { return beginWith(url, store.Tx) }

func beginWith(url string, wrap func(pgx.Tx) dibs.Tx) storetest.Begin {
	return func(ctx context.Context) (storetest.Tx, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return storetest.Tx{}, err
		}
		tx, err := conn.Begin(ctx)
		if err != nil {
			return storetest.Tx{}, errors.Join(err, conn.Close(ctx))
		}
		end := func(f func(context.Context) error) func() error {
			return func() error {
				ctx := context.WithoutCancel(ctx)
				return errors.Join(f(ctx), conn.Close(ctx))
			}
		}
		return storetest.Tx{
			Tx:    wrap(tx),
			Again: func() dibs.Tx { return wrap(tx) },
			Exec: func(ctx context.Context, query string) error {
				_, err := tx.Exec(ctx, query)
				return err
			},
			Count: func(ctx context.Context, query string) (n int, err error) {
				return n, tx.QueryRow(ctx, query).Scan(&n)
			},
			Commit:   end(tx.Commit),
			Rollback: end(tx.Rollback),
			Break:    func() error { return conn.PgConn().Conn().Close() },
		}, nil
	}
}
