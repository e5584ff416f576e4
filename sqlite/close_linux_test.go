package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// TestClosedStoreKeepsNoFileOpen keeps programs that open and close many stores from running out of files.
func TestClosedStoreKeepsNoFileOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := s.Wakeups(dibs.DefaultQueue)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if len(openIn(t, dir)) == 0 {
		t.Fatal("no file is open before the store is closed")
	}
	stop()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if open := openIn(t, dir); len(open) > 0 {
		t.Fatalf("still open: %q", open)
	}
}

// openIn lists the files of a folder that this process has open.
func openIn(t *testing.T, dir string) (open []string) {
	t.Helper()
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if file, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(file, dir) {
			open = append(open, file)
		}
	}
	return open
}
