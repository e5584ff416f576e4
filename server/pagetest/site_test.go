package pagetest

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/server"
)

// onDatabases runs a test on a fresh database of each sort.
func onDatabases(t *testing.T, f func(t *testing.T, db admin.Database)) {
	t.Run("sqlite", func(t *testing.T) { f(t, onSQLite(t)) })
	t.Run("postgres", func(t *testing.T) {
		url := open.URL(pgtest.URL(t))
		if err := open.Migrate(t.Context(), url, open.Options{}); err != nil {
			t.Fatal(err)
		}
		f(t, database(t, url))
	})
}

func onSQLite(t testing.TB) admin.Database {
	t.Helper()
	return database(t, open.URL("sqlite:"+filepath.Join(t.TempDir(), "jobs.db")))
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
		if err := errors.Join(err, db.Close()); err != nil || len(findings) > 0 {
			t.Errorf("%q, %v", findings, err)
		}
	})
	return db
}

// serve serves a database until the test ends, and returns the address.
func serve(t testing.TB, db admin.Database, o server.Options) (url string) {
	t.Helper()
	s := server.New(db, o)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Close()
	})
	return h.URL
}
