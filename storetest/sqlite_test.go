package storetest_test

import (
	"path/filepath"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
	"github.com/dibs-queue/dibs/storetest"
)

func TestSQLite(t *testing.T) { storetest.Run(t, storetest.SQLite, onSQLite) }

func onSQLite(t testing.TB) storetest.Setup {
	path := filepath.Join(t.TempDir(), "dibs.db")
	open := func(t testing.TB) *sqlite.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open(t)
	return storetest.Setup{
		Store:   s,
		Another: func(t testing.TB) dibs.Database { return open(t) },
		Begin:   map[string]storetest.Begin{"sql": storetest.SQL(s.DB(), s.SQLTx)},
	}
}
