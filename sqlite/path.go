package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// checkPath refuses paths that SQLite would refuse with a worse message, or would not take
// for a file's.
func checkPath(path string) error {
	switch {
	case path == "":
		return badPath("is empty; give the path of a file")
	case strings.ContainsRune(path, 0):
		return badPath("contains a NUL byte")
	case path == ":memory:" || strings.HasPrefix(path, "file:"):
		return badPath("must be the path of a file, got %q", path)
	}
	info, err := os.Stat(path)
	if err == nil {
		switch {
		case info.IsDir():
			return badPath("%s is a directory; give the path of a file in it", path)
		case !info.Mode().IsRegular(): // opening a named pipe would wait for its other end
			return badPath("%s is a named pipe, a socket or a device; give the path of a file", path)
		case info.Size() == 1: // SQLite takes it for a new file, and would overwrite it
			return badPath("%s is not a SQLite file; give another path, or restore it from a backup", path)
		}
		return nil
	}
	dir, _ := filepath.Split(path) // filepath.Dir would drop x/..
	if _, err := os.Stat(cmp.Or(dir, ".")); os.IsNotExist(err) {
		return badPath("the directory %s does not exist; make it first", dir)
	}
	var pathErr *fs.PathError
	if !os.IsNotExist(err) && errors.As(err, &pathErr) {
		return badPath("%s cannot be used: %v", path, pathErr.Err)
	}
	return nil
}

func badPath(format string, args ...any) error {
	return &dibs.InvalidError{Field: "path", Reason: fmt.Sprintf(format, args...)}
}

// makeFile makes an empty file, unless there is one.
func makeFile(path string, mode fs.FileMode) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // there is a file, or SQLite reports the error when it opens the path
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return fmt.Errorf("%w: the file cannot be made; check the owner and permissions of its directory: %w", dibs.ErrUnavailable, err)
	}
	return file.Close()
}

// fileURL is the data source name of the file with settings. Opening it never makes the file.
func fileURL(path, mode string, settings url.Values) string {
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	if !strings.HasPrefix(file.Path, "/") {
		file.Path, file.Opaque = "", (&url.URL{Path: file.Path}).EscapedPath()
	}
	settings.Set("mode", mode)
	return file.String() + "?" + settings.Encode()
}

// sources are the data source names of the three kinds of connections.
type sources struct {
	writer, reader, user string
}

func dataSource(path string, o Options) sources {
	synchronous := "full"
	if o.Relaxed {
		synchronous = "normal"
	}
	common := []string{"synchronous(" + synchronous + ")", "temp_store(memory)"}
	source := func(busy time.Duration, pragmas ...string) string {
		return fileURL(path, "rw", url.Values{
			"_txlock":       {"immediate"},
			"_busy_timeout": {fmt.Sprint(busy.Milliseconds())},
			"_pragma":       append(append([]string(nil), common...), pragmas...),
		})
	}
	return sources{
		// The writer and the callers' transactions wait by themselves (turn.go).
		writer: source(0, "wal_autocheckpoint(4000)"),
		reader: source(o.BusyTimeout, "query_only(1)"),
		user:   source(o.BusyTimeout),
	}
}
