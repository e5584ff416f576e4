package mysql_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
	"github.com/dibs-queue/dibs/storetest"
)

func TestMain(m *testing.M) {
	needs.Split()
	os.Exit(mytest.M{M: m}.Run())
}

// soLong says why the longest tests of the package are left to make night while the store is being made.
const soLong = "MariaDB takes minutes for it, and is not for production yet; TestDemoKeepsEveryPromiseOnMariaDB is a short trial"

// TestStore runs the conformance suite.
func TestStore(t *testing.T) {
	needs.RaceAtNight(t, soLong)
	t.Parallel()
	storetest.Run(t, storetest.MariaDB, func(t testing.TB) storetest.Setup {
		address := mytest.Address(t)
		s := openStore(t, address)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return openStore(t, address) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(callers(t, address), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return pass(ctx, s.DB(), d) },
		}
	})
}

func openStore(t testing.TB, address string) *mysql.Store {
	t.Helper()
	return openWith(t, address, mysql.Options{})
}

func openWith(t testing.TB, address string, o mysql.Options) *mysql.Store {
	t.Helper()
	s, err := mysql.Open(t.Context(), address, o)
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

// callers is a pool of a program that has settings of its own.
func callers(t testing.TB, address string, more ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", address+"?tx_isolation=%27READ-COMMITTED%27&sql_mode=%27PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES%27"+strings.Join(more, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// pass lets time pass in a database: it subtracts d from every time in it, and from minutes the whole minutes of d.
func pass(ctx context.Context, db *sql.DB, d time.Duration) error {
	const statements = `
		update dibs_job set run_at = run_at - @d, created_at = created_at - @d, claimed_at = claimed_at - @d, lease_until = lease_until - @d;
		update dibs_finished set run_at = run_at - @d, created_at = created_at - @d, claimed_at = claimed_at - @d, finished_at = finished_at - @d;
		update dibs_unique_window set until = until - @d;
		update dibs_key set check_at = check_at - @d;
		update dibs_claim set check_at = check_at - @d;
		update dibs_schedule set since = since - @d, next_at = next_at - @d, last_tick = last_tick - @d;
		update dibs_worker set since = since - @d, seen_at = seen_at - @d;
		update dibs_rate set full_ns = greatest(full_ns - @d * 1000, 0), not_before = greatest(not_before - @d, 0), held_until = held_until - @d;
		update dibs_tally set minute = minute - @d div 60000000 where minute > 0;
		update dibs_start set at = at - @d;
		update dibs_wake set not_before = greatest(not_before - @d, 0)`
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "set @d = ?", d.Microseconds()); err != nil {
		return err
	}
	for text := range strings.SplitSeq(statements, ";") {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}
