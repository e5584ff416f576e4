package sqlserver_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlserver"
	"github.com/dibs-queue/dibs/storetest"
)

func TestMain(m *testing.M) {
	needs.Split()
	os.Exit(m.Run())
}

// envServer is the environment variable for the URL of a running SQL Server whose user may create databases. No such server can be
// had where dibs is made, so these tests are left out without it; .github/workflows/sqlserver.yml runs them.
const envServer = "DIBS_TEST_SQLSERVER"

// TestStore runs the conformance suite.
func TestStore(t *testing.T) {
	server(t)
	t.Parallel()
	storetest.RunSome(t, storetest.SQLServer, func(t testing.TB) storetest.Setup {
		address := database(t)
		s := openStore(t, address)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return openStore(t, address) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(connect(t, address), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return pass(ctx, s.DB(), d) },
		}
	}, map[string]string{
		"rows":   "its SQL by hand is not T-SQL",
		"repair": "its SQL by hand is not T-SQL",
	})
}

// TestModel compares the store with the reference model.
func TestModel(t *testing.T) {
	server(t)
	t.Parallel()
	address := database(t)
	var s *sqlserver.Store
	another := func() (_ admin.Database, err error) {
		if s != nil {
			err = s.Close()
		}
		if err == nil {
			s, err = sqlserver.Open(t.Context(), address, sqlserver.Options{MaxConns: 2})
		}
		return s, err
	}
	if _, err := another(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	other := connect(t, address)
	model.Check(t, func(t model.TB) model.Database {
		if err := empty(t, other); err != nil {
			t.Fatalf("%v", err)
		}
		return model.Database{
			Database: s, Lazy: true, Another: another,
			Pass: func(d time.Duration) error { return pass(t.Context(), s.DB(), d) },
		}
	})
}

// TestTheLabelIsOne compares what Open and dibs version say with what the suite and README say.
func TestTheLabelIsOne(t *testing.T) {
	t.Parallel()
	if sqlserver.Proven != storetest.SQLServer.Proven {
		t.Errorf("the package says %q, the suite %q", sqlserver.Proven, storetest.SQLServer.Proven)
	}
}

// server is the URL of the server.
func server(t testing.TB) string {
	t.Helper()
	given := os.Getenv(envServer)
	if given == "" {
		t.Skip("needs a SQL Server: " + envServer + " can name one")
	}
	return given
}

// database makes a database, and drops it when the test ends.
func database(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	admin, name := connect(t, u.String()), "dibs_test_"+strings.ToLower(rand.Text())
	administer := func(ctx context.Context, statement string) {
		if _, err := admin.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	administer(t.Context(), "create database "+name)
	administer(t.Context(), "alter database "+name+" set read_committed_snapshot on with rollback immediate")
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		administer(ctx, "alter database "+name+" set single_user with rollback immediate")
		administer(ctx, "drop database "+name)
	})
	query := u.Query()
	query.Set("database", name)
	u.RawQuery = query.Encode()
	return u.String()
}

// connect is a pool of a program's own.
func connect(t testing.TB, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlserver", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func openStore(t testing.TB, address string) *sqlserver.Store {
	t.Helper()
	s, err := sqlserver.Open(t.Context(), address, sqlserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pass lets time pass in a database: it subtracts d from every time in it, and from minutes the whole minutes of d.
func pass(ctx context.Context, db *sql.DB, d time.Duration) error {
	_, err := db.ExecContext(ctx, `set xact_abort on;
		update dibs_job set run_at = run_at - @p1, created_at = created_at - @p1, claimed_at = claimed_at - @p1, lease_until = lease_until - @p1;
		update dibs_finished set run_at = run_at - @p1, created_at = created_at - @p1, claimed_at = claimed_at - @p1, finished_at = finished_at - @p1;
		update dibs_unique_window set until = until - @p1;
		update dibs_key set check_at = check_at - @p1;
		update dibs_claim set check_at = check_at - @p1;
		update dibs_schedule set since = since - @p1, next_at = next_at - @p1, last_tick = last_tick - @p1;
		update dibs_worker set since = since - @p1, seen_at = seen_at - @p1;
		update dibs_rate set
			full_ns = case when full_ns > @p1 * 1000 then full_ns - @p1 * 1000 else 0 end,
			not_before = case when not_before > @p1 then not_before - @p1 else 0 end,
			held_until = held_until - @p1;
		update dibs_tally set minute = minute - @p1 / 60000000 where minute > 0;
		update dibs_start set at = at - @p1;
		update dibs_wake set not_before = case when not_before > @p1 then not_before - @p1 else 0 end;`, d.Microseconds())
	return err
}

// empty deletes the rows of all tables but those that say which tables there are and who the database is.
func empty(t model.TB, db *sql.DB) error {
	rows, err := db.QueryContext(t.Context(), "select name from sys.tables where name like 'dibs[_]%' and name not in ('dibs_migration', 'dibs_identity')")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := db.ExecContext(t.Context(), "delete from "+name); err != nil {
			return err
		}
	}
	return nil
}
