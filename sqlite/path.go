package sqlite

import (
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

// checkPath refuses what SQLite would refuse with a worse message, or would take for
// something else than a file.
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
		if info.IsDir() {
			return badPath("%s is a directory; give the path of a file in it", path)
		}
		return nil
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); os.IsNotExist(err) {
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

// sources are the data source names of the three kinds of connections.
type sources struct {
	writer, reader, user string
}

func dataSource(path string, o Options) sources {
	synchronous := "full"
	if o.Relaxed {
		synchronous = "normal"
	}
	common := []string{"journal_mode(wal)", "synchronous(" + synchronous + ")", "temp_store(memory)"}
	source := func(busy time.Duration, pragmas ...string) string {
		v := url.Values{"_txlock": {"immediate"}, "_busy_timeout": {fmt.Sprint(busy.Milliseconds())}}
		v["_pragma"] = append(append([]string(nil), common...), pragmas...)
		file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
		if !strings.HasPrefix(file.Path, "/") {
			file.Path, file.Opaque = "", (&url.URL{Path: file.Path}).EscapedPath()
		}
		return file.String() + "?" + v.Encode()
	}
	return sources{
		// The writer and the callers' transactions wait by themselves (turn.go).
		writer: source(0, "cache_size(-65536)", "wal_autocheckpoint(4000)"),
		reader: source(o.BusyTimeout, "query_only(1)"),
		user:   source(o.BusyTimeout),
	}
}
