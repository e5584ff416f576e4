package open

import (
	"context"
	"errors"

	"github.com/dibs-queue/dibs"
)

var errNone = errors.New("no driver is built in")

func openSQLite(context.Context, string, Options) (dibs.Database, error)   { return nil, errNone }
func openPostgres(context.Context, string, Options) (dibs.Database, error) { return nil, errNone }
func migratePostgres(context.Context, string, Options) error               { return errNone }
func migrationsSQLite(Options) string                                      { return "" }
func migrationsPostgres(Options) string                                    { return "" }
