package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// A worker whose file is deleted or replaced ends with an error, in place of working on one that nobody else sees.
func TestAWorkerEndsWhenItsFileIsGone(t *testing.T) {
	needs.Race(t)
	for how, do := range map[string]func(path string) error{
		"deleted": os.Remove,
		"replaced by another": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.db")
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			w := &dibs.Worker{Store: s}
			w.HandleRaw("k", func(context.Context, *dibs.RawJob) error { return nil })
			ended := make(chan error, 1)
			go func() { ended <- w.Run(t.Context()) }()
			for w.Ready(t.Context()) != nil {
				time.Sleep(10 * time.Millisecond)
			}
			if err := do(path); err != nil && runtime.GOOS == "windows" {
				t.Skip("Windows keeps files that are open")
			} else if err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, dibs.ErrInvalid) || !strings.Contains(err.Error(), how) {
				t.Errorf("the worker ended with %v", err)
			}
			if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); !errors.Is(err, dibs.ErrInvalid) {
				t.Errorf("enqueued: %v", err)
			}
		})
	}
}

// A file that is moved to and back, or changed in place, is the same.
func TestAFileThatIsTheSameStaysOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil && runtime.GOOS == "windows" {
		t.Skip("Windows lets only some users make links")
	} else if err != nil {
		t.Fatal(err)
	}
	linked := openAt(t, link, sqlite.Options{})
	for range 3 {
		for _, s := range []*sqlite.Store{s, linked} {
			if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(600 * time.Millisecond) // a store looks once a second
	}
}
