package open

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/sqlite"
)

func openSQLite(ctx context.Context, path string, o Options) (dibs.Database, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Prefix: o.Prefix})
	if err != nil {
		return nil, err
	}
	return db, nil
}

// lacksTables reports whether a readable SQLite file has no tables of dibs. It writes
// nothing, since the file may be another program's.
func lacksTables(ctx context.Context, path string, o Options) bool {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false // opening the file then returns a better error, here and below
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil { // SQLite keeps -wal and -journal beside the file, not beside a link
		return false
	}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), OmitHost: true, RawQuery: "_pragma=busy_timeout(10000)&_pragma=query_only(1)"}
	// Closing an ordinary connection may move the -wal into the file; opening one may roll
	// back the half-written transaction of a program that died.
	for ending, params := range map[string]string{"-wal": "&mode=ro", "-journal": "&mode=ro&immutable=1"} {
		if info, err := os.Stat(abs + ending); err == nil && info.Size() > 0 {
			file.RawQuery += params
		}
	}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return false
	}
	defer db.Close()
	prefix := o.Prefix
	if prefix == "" {
		prefix = "dibs_"
	}
	var n int
	err = db.QueryRowContext(ctx, "select count(*) from sqlite_schema where type = 'table' and name = ?1 collate nocase", prefix+"migration").Scan(&n)
	return err == nil && n == 0
}

func migrateSQLite(ctx context.Context, path string, o Options) error {
	return sqlite.Migrate(ctx, path, sqlite.Options{Prefix: o.Prefix, Migrated: o.Migrated})
}

func openPostgres(ctx context.Context, url string, o Options) (dibs.Database, error) {
	db, err := postgres.Open(ctx, url, postgres.Options{Schema: o.Schema})
	if err != nil {
		return nil, err
	}
	return db, nil
}

func migratePostgres(ctx context.Context, url string, o Options) error {
	return postgres.Migrate(ctx, url, postgres.Options{Schema: o.Schema, Migrated: o.Migrated})
}

func migrationsSQLite(o Options) (string, error) {
	return sqlite.Migrations(sqlite.Options{Prefix: o.Prefix}, o.Since)
}

func migrationsPostgres(o Options) (string, error) {
	text, err := postgres.Migrations(postgres.Options{Schema: o.Schema}, o.Since)
	if err != nil || text == "" || o.NoTransaction {
		return text, err
	}
	return "begin;\n" + text + "commit;\n", nil
}
