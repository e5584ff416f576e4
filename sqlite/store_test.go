package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
	"github.com/dibs-queue/dibs/storetest"
)

// TestStore runs the conformance suite.
func TestStore(t *testing.T) {
	needs.RaceInPart(t)
	t.Parallel()
	storetest.Run(t, storetest.SQLite, func(t testing.TB) storetest.Setup {
		path := filepath.Join(t.TempDir(), "jobs.db")
		open := func(t testing.TB) *sqlite.Store {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
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
		s := open(t)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return open(t) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(s.DB(), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return model.PassInFile(ctx, s.DB(), d) },
		}
	})
}
