//go:build unix

package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Only the owner can read the file, unless the program allows more. Users who may only read the file may not lock the
// file of the line.
func TestANewFileIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, want, line os.FileMode }{{0, 0o600, 0o600}, {0o640, 0o640, 0o600}} {
		path := filepath.Join(t.TempDir(), "jobs.db")
		s := openAt(t, path, sqlite.Options{FileMode: c.given})
		if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"", "-wal", "-shm", sqlite.LineSuffix} {
			info, err := os.Stat(path + end)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if end == sqlite.LineSuffix {
				want = c.line
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("FileMode %#o: jobs.db%s has %#o", c.given, end, got)
			}
		}
	}
}

func TestANamedPipeIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe.db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, os.DevNull} {
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err == nil || !strings.Contains(err.Error(), "give the path of a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
