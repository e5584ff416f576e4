package model

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// SQLite returns a Maker that creates a file for each run. If it is not nil, opened puts
// each store into its concurrent mode, in which groups are settled late.
func SQLite(t testing.TB, opened func(*sqlite.Store) error) Maker {
	dir := t.TempDir()
	return func(t TB) Database {
		own, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatalf("%v", err)
		}
		path := filepath.Join(own, "jobs.db")
		var s *sqlite.Store
		another := func() (db admin.Database, err error) {
			if s != nil {
				err = s.Close()
			}
			if err == nil {
				s, err = sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
			}
			if err == nil && opened != nil {
				err = opened(s)
			}
			return s, err
		}
		db, err := another()
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Fatalf("%v", err)
			}
			if err := os.RemoveAll(own); err != nil {
				t.Fatalf("%v", err)
			}
		})
		return Database{
			Database: db,
			Lazy:     opened != nil,
			Another:  another,
			Pass:     func(d time.Duration) error { return PassInFile(t.Context(), s.DB(), d) },
		}
	}
}

// PassInFile lets time pass in a file: it subtracts d from every time in it, and from minutes the whole
// minutes of d. The file's clock stays, so that it is not ahead of the system's.
func PassInFile(ctx context.Context, db *sql.DB, d time.Duration) error {
	const statements = `
		update dibs_job set run_at = run_at - @d, created_at = created_at - @d, claimed_at = claimed_at - @d, lease_until = lease_until - @d;
		update dibs_finished set run_at = run_at - @d, created_at = created_at - @d, claimed_at = claimed_at - @d, finished_at = finished_at - @d;
		update dibs_unique_window set until = until - @d;
		update dibs_claim set check_at = check_at - @d;
		update dibs_schedule set since = since - @d, next_at = next_at - @d, last_tick = last_tick - @d;
		update dibs_worker set since = since - @d, seen_at = seen_at - @d;
		update dibs_rate set full_ns = max(full_ns - @d * 1000, 0), not_before = max(not_before - @d, 0), held_until = held_until - @d;
		-- First to negative minutes, so that no two rows have the same minute in between.
		update dibs_tally set minute = @d / 60000000 - minute where minute > 0;
		update dibs_tally set minute = - minute where minute < 0`
	if _, err := db.ExecContext(ctx, statements, sql.Named("d", d.Microseconds())); err != nil {
		return err
	}
	var starts int // tables that only tests of the concurrent mode have
	if err := db.QueryRowContext(ctx, "select count(*) from sqlite_schema where name = 'dibs_start'").Scan(&starts); err != nil || starts == 0 {
		return err
	}
	_, err := db.ExecContext(ctx, "update dibs_start set at = at - @d; update dibs_wake set not_before = max(not_before - @d, 0)", sql.Named("d", d.Microseconds()))
	return err
}
