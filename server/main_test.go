package server_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

func TestMain(m *testing.M) {
	needs.Split()
	// The server that all PostgreSQL tests share lives as long as this process.
	goleak.VerifyTestMain(pgtest.M{M: m}, goleak.IgnoreAnyFunction("github.com/dibs-queue/dibs/internal/lab/pgserver.(*Server).run.func1"))
}

// onDatabases runs a test on a fresh database of each sort.
func onDatabases(t *testing.T, f func(t *testing.T, db admin.Database)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, database(t, open.URL("sqlite:"+filepath.Join(t.TempDir(), "jobs.db"))))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, database(t, open.URL(pgtest.Filled(t, "migrated", func(url string) error {
			return open.Migrate(context.Background(), open.URL(url), open.Options{})
		}))))
	})
}

// database opens a store. When the test ends, the store is checked and closed.
func database(t testing.TB, url open.URL) admin.Database {
	t.Helper()
	db, err := open.Database(t.Context(), url, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		findings, err := db.Check(context.Background())
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
		for _, f := range findings {
			t.Errorf("consistency check: %s", f)
		}
	})
	return db
}

// serve serves a database until the test ends, and returns the address.
func serve(t testing.TB, db admin.Database) (url string) {
	t.Helper()
	s := server.New(db, server.Options{})
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Close()
	})
	return h.URL
}

// patience is how long a test waits for an event that has to come, however slow the machine is.
const patience = 10 * time.Minute
