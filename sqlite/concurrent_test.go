package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/interleave"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
	"github.com/dibs-queue/dibs/storetest"
)

// openConcurrent opens a store that works as on a database in which others write meanwhile.
func openConcurrent(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	return openWithTurns(t, path, &sqlite.Turns{})
}

func openWithTurns(t testing.TB, path string, turns *sqlite.Turns) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Concurrent(t.Context(), turns); err != nil {
		t.Fatal(err)
	}
	return s
}

func concurrent(s *sqlite.Store) error { return s.Concurrent(context.Background(), &sqlite.Turns{}) }

// TestConcurrentStore runs the conformance suite with what a database needs in which others write meanwhile.
func TestConcurrentStore(t *testing.T) {
	needs.RaceAtNight(t, "SQLite has one writer in this mode too: goroutines meet as in TestStore")
	t.Parallel()
	without := map[string]string{"rows/what a constraint can refuse is refused, and named": "jobs of a group are blocked until a claim"}
	storetest.RunSome(t, storetest.SQLite, func(t testing.TB) storetest.Setup {
		path := filepath.Join(t.TempDir(), "jobs.db")
		s := openConcurrent(t, path)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return openConcurrent(t, path) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(s.DB(), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return model.PassInFile(ctx, s.DB(), d) },
		}
	}, without)
}

// TestConcurrentModel compares a store of that mode with the reference model.
func TestConcurrentModel(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	model.Check(t, model.SQLite(t, concurrent))
}

// TestConcurrentInterleavings runs small programs in many orders of their calls.
func TestConcurrentInterleavings(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	interleave.Run(t, interleavings(), func(tb testing.TB) interleave.Bench { return newStage(tb, true, nil) })
}
