package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// The clock of a file is ahead of the system's by centuries: windows go by the file's.
func TestAWindowEndsByTheFilesClock(t *testing.T) {
	t.Parallel()
	for window, at := range map[string][3]string{ // when a job is enqueued, the next one is kept out, and the next one is enqueued
		"hour":                    {"2999-07-10T11:00:00Z", "2999-07-10T11:59:00Z", "2999-07-10T12:00:00Z"},
		"day":                     {"2999-07-10T11:00:00Z", "2999-07-10T23:59:00Z", "2999-07-11T00:00:00Z"},
		"day in Europe/Berlin":    {"2999-07-09T22:00:00Z", "2999-07-10T21:59:00Z", "2999-07-10T22:00:00Z"},
		"week in America/Chicago": {"2999-07-08T05:00:00Z", "2999-07-15T04:59:00Z", "2999-07-15T05:00:00Z"}, // a Monday
		"month in Asia/Kathmandu": {"2999-01-31T18:15:00Z", "2999-02-28T18:14:00Z", "2999-02-28T18:15:00Z"},
	} {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // nothing is left to write
		for i, now := range at {
			when, err := time.Parse(time.RFC3339, now)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.DB().ExecContext(t.Context(), "update dibs_clock set now = ?", when.UnixMicro()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			done, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", UniqueKey: "u", UniqueWindow: window}})
			if err != nil {
				t.Fatal(err)
			}
			if kept := i == 1; done[0].Existing != kept {
				t.Errorf("a job of the window %q is kept out at %s: %v, want %v", window, now, done[0].Existing, kept)
			}
			if _, _, err := s.Cancel(t.Context(), []int64{done[0].ID}); err != nil {
				t.Fatal(err)
			}
		}
		var left int
		if err := s.DB().QueryRowContext(t.Context(), "select count(*) from dibs_unique_window").Scan(&left); err != nil || left != 1 {
			t.Errorf("%d windows are left, %v", left, err)
		}
	}
}
