package open

import (
	"context"

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

func openPostgres(ctx context.Context, url string, o Options) (dibs.Database, error) {
	db, err := postgres.Open(ctx, url, postgres.Options{Schema: o.Schema})
	if err != nil {
		return nil, err
	}
	return db, nil
}

func migratePostgres(ctx context.Context, url string, o Options) error {
	return postgres.Migrate(ctx, url, postgres.Options{Schema: o.Schema})
}

func migrationsSQLite(o Options) string {
	return sqlite.Migrations(sqlite.Options{Prefix: o.Prefix})
}

func migrationsPostgres(o Options) (string, error) {
	return postgres.Migrations(postgres.Options{Schema: o.Schema})
}
