package checks

import (
	"context"
	"database/sql"

	"github.com/dibs-queue/dibs"
)

// Context refuses a nil context: database drivers panic with it, some while they hold locks.
func Context(ctx context.Context) error {
	if ctx == nil {
		return &dibs.InvalidError{Field: "ctx", Reason: "is nil; give context.Background() if there is no other"}
	}
	return nil
}

// Database refuses a missing database.
func Database(db *sql.DB) error {
	if db == nil {
		return &dibs.InvalidError{Field: "db", Reason: "is nil"}
	}
	return nil
}
