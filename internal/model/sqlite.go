package model

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// SQLite returns a Maker that creates a file for each run.
func SQLite(t testing.TB) Maker {
	dir := t.TempDir()
	return func(t TB) Database {
		own, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatalf("%v", err)
		}
		path := filepath.Join(own, "jobs.db")
		var s *sqlite.Store
		another := func() (db dibs.Database, err error) {
			if s != nil {
				err = s.Close()
			}
			if err == nil {
				s, err = sqlite.Open(t.Context(), path, sqlite.Options{Relaxed: true})
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
			Another:  another,
			Pass:     func(d time.Duration) error { return passInFile(s, d) },
		}
	}
}

// passInFile subtracts d from every time in the file, except for the clock, which is never
// ahead of the system's by more than a moment.
func passInFile(s *sqlite.Store, d time.Duration) error {
	for _, statement := range []string{
		`update dibs_job set run_at = run_at - ?1, created_at = created_at - ?1, claimed_at = claimed_at - ?1, lease_until = lease_until - ?1`,
		`update dibs_finished set run_at = run_at - ?1, created_at = created_at - ?1, claimed_at = claimed_at - ?1, finished_at = finished_at - ?1`,
		`update dibs_unique_window set until = until - ?1`,
		`update dibs_claim set check_at = check_at - ?1`,
		// First to negative minutes, so that no two rows have the same minute in between.
		`update dibs_tally set minute = ?1 / 60000000 - minute where minute > 0`,
		`update dibs_tally set minute = - minute where minute < 0`,
	} {
		if _, err := s.DB().Exec(statement, d.Microseconds()); err != nil {
			return err
		}
	}
	return nil
}
