package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs/sqlite"
)

// openStore opens a store on a fresh file. A test, not a benchmark, ends with the
// consistency check.
func openStore(tb testing.TB, o sqlite.Options) *sqlite.Store {
	tb.Helper()
	return openAt(tb, filepath.Join(tb.TempDir(), "jobs.db"), o)
}

func openAt(tb testing.TB, path string, o sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(context.Background(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if _, bench := tb.(*testing.B); !bench {
			consistent(tb, s)
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func consistent(tb testing.TB, s *sqlite.Store) {
	tb.Helper()
	found, err := s.Check(context.Background())
	if err != nil {
		tb.Errorf("check: %v", err)
	}
	for _, what := range found {
		tb.Errorf("check: %s", what)
	}
}
