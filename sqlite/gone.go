package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// openedFile knows whether the file that the store has open is still the one at its path. If that was deleted or
// replaced, for example by a backup, SQLite goes on with the old file, which nobody else sees.
type openedFile struct {
	mu     sync.Mutex
	path   string
	opened fs.FileInfo
	looked time.Time
	gone   error
}

// lookPause is how often a store looks at the file at its path.
const lookPause = time.Second

func (f *openedFile) open(path string) (err error) {
	f.path, f.looked = path, time.Now()
	f.opened, err = os.Stat(path)
	return err
}

// check fails if another file, or none, is found at the path, and then always.
func (f *openedFile) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone != nil || time.Since(f.looked) < lookPause {
		return f.gone
	}
	f.looked = time.Now()
	switch now, err := os.Stat(f.path); {
	case errors.Is(err, fs.ErrNotExist):
		f.gone = fileGone(f.path, "deleted")
	case err == nil && !os.SameFile(f.opened, now):
		f.gone = fileGone(f.path, "replaced by another")
	}
	return f.gone
}

func fileGone(path, how string) error {
	return &dibs.InvalidError{Field: "path", Reason: fmt.Sprintf("%s was %s while it was open: what this process wrote since is lost to others; start it again", path, how)}
}
