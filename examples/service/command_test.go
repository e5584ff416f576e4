package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/open"
)

// The service and the command dibs find the same queue by the same DIBS_DB. Only a test of dibs itself can compare
// both, so this file is not for copying.
func TestDatabasesAreNamedAsForTheCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"sqlite:svc.db", "sqlite:svc", "sqlite://svc.db", "svc.db", "svc.sqlite", "svc.sqlite3", "postgres://host/svc", "postgresql://host/svc.db", "mysql://host/svc.db"} {
		want, _, _ := open.Place(open.URL(url)) // an unknown kind of database is no file
		if got := sqlitePath(url); got != want {
			t.Errorf("%s is the file %q, for the command %q", url, got, want)
		}
	}
	if _, _, err := openDatabase(t.Context(), "mysql://host/svc.db"); err == nil || !strings.Contains(err.Error(), "sqlite:PATH") {
		t.Errorf("an unknown kind of database gave %v", err)
	}
	jobs, _, err := openDatabase(t.Context(), "sqlite:svc.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := jobs.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("svc.db"); err != nil {
		t.Error(err)
	}
}
