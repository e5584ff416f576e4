package adopt

import (
	"context"
	"database/sql"
)

// verify has the database check what only it can.
func (p *plan) verify(ctx context.Context, db *sql.DB) error {
	return nil
}
