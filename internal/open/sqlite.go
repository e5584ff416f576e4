package open

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// sqliteFiles are the files of SQLite.
var sqliteFiles = database{
	file:  true,
	names: func(u URL) bool { _, ok := sqlitePath(u); return ok },
	find:  findSQLite,
	open:  openSQLite,
	sql: func(_ context.Context, path string, _ Options) (*sql.DB, error) {
		if err := checkFile(path, false); err != nil {
			return nil, err
		}
		return openFile(path)
	},
	migrate: func(ctx context.Context, path string, o Options) error {
		if err := checkFile(path, false); err != nil {
			return err
		}
		return sqlite.Migrate(ctx, path, sqlite.Options{Prefix: o.Prefix, Migrated: o.Migrated})
	},
	migrations: func(o Options) (string, error) { return sqlite.Migrations(sqlite.Options{Prefix: o.Prefix}, o.Since) },
	remove: func(ctx context.Context, path string, o Options) (empty bool, err error) {
		db, err := openFile(path)
		if err != nil {
			return false, err
		}
		empty, err = dropTables(ctx, db, o.Prefix)
		return empty, errors.Join(err, db.Close())
	},
	named: func(name string) (Options, string) {
		return Options{Prefix: name + "_"}, "SQLite, tables " + name + "_*"
	},
	explain: explainSQLite,
}

func openSQLite(ctx context.Context, path string, o Options) (admin.Database, error) {
	if err := checkFile(path, o.Existing); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, path, sqlite.Options{Prefix: o.Prefix, Existing: o.Existing})
	if o.Existing && errors.Is(err, sqlite.ErrNoTables) {
		return nil, &Error{
			Problem: "there are no tables of dibs in " + path,
			Next:    "'dibs migrate' makes them; to work on a table of your own, give --table MAPPING",
			Err:     err,
		}
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

func sqlitePath(u URL) (string, bool) {
	path, named := strings.CutPrefix(string(u), "sqlite:")
	path = strings.TrimPrefix(path, "//")
	if likeServer(path, named) {
		return "", false
	}
	if named {
		return path, true
	}
	switch filepath.Ext(path) {
	case ".db", ".sqlite", ".sqlite3":
		return string(u), !strings.Contains(string(u), "://")
	}
	return "", false
}

func findSQLite(u URL, o Options) (string, error) {
	path, _ := sqlitePath(u)
	switch {
	case o.Schema != "":
		return "", &Error{
			Problem: "--schema is for PostgreSQL",
			Next:    "on SQLite, choose the prefix of the tables' names with --prefix",
			Err:     dibs.ErrInvalid,
		}
	case path == "" || strings.HasPrefix(path, ":memory:"):
		return "", &Error{
			Problem: "the SQLite URL names no file",
			Next:    "write sqlite:PATH, such as " + string(Default),
			Err:     dibs.ErrInvalid,
		}
	case likeParameters(path):
		name, _, _ := strings.Cut(path, "?") // the part after it may be a secret
		return "", &Error{
			Problem: "a SQLite URL takes no parameters, and there is no file with a ? in its name: " + name,
			Next:    "leave out the ? and what follows; if the name is meant so, make the empty file first",
			Err:     dibs.ErrInvalid,
		}
	}
	return path, nil
}

// likeParameters reports whether a path seems to end in parameters, such as ?mode=ro, and
// no file of that name exists.
func likeParameters(path string) bool {
	if !strings.Contains(filepath.Base(path), "?") {
		return false
	}
	_, err := os.Stat(path)
	return err != nil
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

// dropTables drops the tables and views with the prefix; indexes and triggers go with their
// tables. Views go first, since SQLite does not drop a table under one.
func dropTables(ctx context.Context, db *sql.DB, prefix string) (empty bool, err error) {
	rows, err := db.QueryContext(ctx, "select type, name from sqlite_schema where type in ('table', 'view') and substr(name, 1, length(?1)) = ?1 order by type desc", prefix)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var kind, name string
		if err := rows.Scan(&kind, &name); err != nil {
			return false, err
		}
		drops = append(drops, fmt.Sprintf(`drop %s "%s"`, kind, name))
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	for _, drop := range drops {
		if _, err := db.ExecContext(ctx, drop); err != nil {
			return false, err
		}
	}
	err = db.QueryRowContext(ctx, "select count(*) = 0 from sqlite_schema where name not like 'sqlite_%'").Scan(&empty)
	return empty, err
}

// checkFile explains problems for which SQLite only says "unable to open database file".
func checkFile(path string, existing bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &Error{
			Problem: path + " is a directory",
			Next:    "name a file in it, such as sqlite:" + filepath.Join(path, "dibs.db"),
			Err:     dibs.ErrInvalid,
		}
	case err == nil && !info.Mode().IsRegular(): // opening a named pipe would wait for its other end
		return &Error{
			Problem: path + " is a named pipe, a socket or a device",
			Next:    "name a file with --db or $DIBS_DB",
			Err:     dibs.ErrInvalid,
		}
	case errors.Is(err, fs.ErrNotExist) && existing:
		return &Error{
			Problem: "there is no database file " + path,
			Next:    "name another with --db or $DIBS_DB, or make it with 'dibs migrate'",
			Err:     dibs.ErrSchema,
		}
	case errors.Is(err, fs.ErrNotExist):
		dir, _ := filepath.Split(path) // filepath.Dir would drop x/.. without looking
		return checkFolder(cmp.Or(dir, "."))
	}
	return nil
}

func checkFolder(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &Error{
			Problem: "there is no folder " + strings.TrimSuffix(dir, string(filepath.Separator)),
			Next:    "make it first, or name another file with --db or $DIBS_DB",
			Err:     dibs.ErrInvalid,
		}
	}
	return nil
}

// Primary result codes of SQLite for problems with the file.
const (
	sqliteBusy     = 5
	sqliteReadonly = 8
	sqliteIOErr    = 10
	sqliteCorrupt  = 11
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

func explainSQLite(u URL, err error) *Error {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) {
		return nil
	}
	path, _ := sqlitePath(u)
	switch coded.Code() & 0xff {
	case sqliteBusy:
		return &Error{
			Problem: "another process holds the write lock of " + path + " for too long",
			Next:    "try again; look for a program that keeps a transaction open on it",
		}
	case sqliteReadonly:
		return &Error{
			Problem: path + " is read-only",
			Next:    "give this user the right to write the file and its folder, or name another with --db",
		}
	case sqliteIOErr:
		return &Error{
			Problem: "reading or writing " + path + " failed",
			Next:    "check the disk; SQLite needs a local one, not a network share",
		}
	case sqliteCorrupt:
		return &Error{
			Problem: path + " is damaged",
			Next:    "restore it from a backup, or save what can be read: sqlite3 " + path + " .recover",
			Err:     err,
		}
	case sqliteFull:
		return &Error{
			Problem: "the disk with " + path + " is full; nothing was written",
			Next:    "free some space there and try again",
		}
	case sqliteCantOpen:
		return &Error{
			Problem: path + " cannot be opened",
			Next:    "check that the folder exists and that this user may write in it",
		}
	case sqliteNotADB:
		return &Error{
			Problem: path + " is not a SQLite database",
			Next:    "name another file with --db or $DIBS_DB",
			Err:     fmt.Errorf("%w: %w", dibs.ErrInvalid, err),
		}
	}
	return nil
}
