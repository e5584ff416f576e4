package open

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/session"
)

// SQL opens the database at u with database/sql, whether or not it has tables of dibs. A
// SQLite file must exist.
func SQL(ctx context.Context, u URL, o Options) (*sql.DB, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	if t.sqlite != "" {
		if err := checkFile(t.sqlite, false); err != nil {
			return nil, err
		}
		return openFile(t.sqlite)
	}
	db, maxConns, err := session.DB(ctx, WithDefaults(t.postgres, o))
	if err != nil {
		if db != nil {
			err = errors.Join(Explain(u, err), db.Close())
		}
		return nil, Explain(u, err)
	}
	db.SetMaxOpenConns(maxConns)
	return db, nil
}

// openFile opens a SQLite file that must exist.
func openFile(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{
			Problem: "there is no database file " + path,
			Next:    "name the one that holds the table with --db or $DIBS_DB",
			Err:     dibs.ErrInvalid,
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), OmitHost: true, RawQuery: "_pragma=busy_timeout(10000)"}
	return sql.Open("sqlite", u.String())
}
