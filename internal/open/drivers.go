package open

import (
	"context"
	"errors"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/sqlite"
)

func openSQLite(ctx context.Context, path string, o Options) (dibs.Database, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Prefix: o.Prefix, Existing: o.Existing})
	if err != nil {
		return nil, err
	}
	return db, nil
}

// lacksTables reports whether a SQLite file was refused as it has no tables of dibs.
func lacksTables(err error) bool { return errors.Is(err, sqlite.ErrNoTables) }

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
