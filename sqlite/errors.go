package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// hints say what to do about a result code; their errors are dibs.ErrUnavailable.
var hints = map[int]string{
	sqlite3.SQLITE_BUSY:     "another transaction held the write lock for too long; end it",
	sqlite3.SQLITE_LOCKED:   "another statement of the same connection is still open; end it",
	sqlite3.SQLITE_FULL:     "the disk is full, or the file has reached its largest size; make room",
	sqlite3.SQLITE_IOERR:    "the disk reported an error",
	sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check the path, owner and permissions",
	sqlite3.SQLITE_PERM:     "the file cannot be used; check owner and permissions",
	sqlite3.SQLITE_NOMEM:    "memory is short",
	sqlite3.SQLITE_PROTOCOL: "the file's locks do not work; it must be on a local disk",
}

// isHot reports whether the file has a hot journal: it can be read only after a connection
// that may write has undone the transaction of a program that died.
func isHot(err error) bool {
	var db *sqlite.Error
	return errors.As(err, &db) && db.Code() == sqlite3.SQLITE_READONLY_ROLLBACK
}

// wrap names the operation, once, and classifies errors of the database.
func wrap(op string, err error) error { return rowstore.Wrap(op, err, classify) }

// classify goes by the result code, never by the text.
func classify(err error) error {
	code, ok := resultCode(err)
	if !ok {
		return err
	}
	if code == sqlite3.SQLITE_READONLY {
		return fmt.Errorf("%w: %w", dibs.ErrUnavailable, &checks.ReadOnlyError{Why: checks.ReadOnlyFile, Err: err})
	}
	if hint, ok := hints[code]; ok {
		return fmt.Errorf("%w: %s: %w", dibs.ErrUnavailable, hint, err)
	}
	switch code {
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("this is not a SQLite file, or its beginning is damaged; give another path, or restore it from a backup: %w", err)
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("the file is damaged; restore it from a backup, or save what can be read with sqlite3's .recover: %w", err)
	}
	return err
}

// resultCode is SQLite's primary result code, if err is an error of SQLite's.
func resultCode(err error) (code int, ok bool) {
	var db *sqlite.Error
	if !errors.As(err, &db) {
		return 0, false
	}
	return db.Code() & 0xff, true
}

// busy reports whether a call failed because another connection holds a lock.
func busy(err error) bool {
	code, ok := resultCode(err)
	return ok && code == sqlite3.SQLITE_BUSY
}

// retryBusy repeats f while it fails because another connection holds a lock, for at most limit.
func retryBusy(ctx context.Context, limit time.Duration, f func() error) error {
	began := time.Now()
	for {
		err := f()
		waited := time.Since(began)
		if !busy(err) || waited > limit {
			return err
		}
		if _, err := waitFor(ctx, nil, growing(waited)); err != nil {
			return err
		}
	}
}
