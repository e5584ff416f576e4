package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dibs-queue/dibs"
)

// migrate brings the schema up to date. The write lock of the file is its lock: of
// several processes that open a file at once, one does the work and the others find it done.
func migrate(ctx context.Context, dsn string, s *statements) error {
	known, err := s.migrations()
	if err != nil {
		return err
	}
	db := openPool(dsn, nil, 0)
	defer db.Close()
	version, err := schemaVersion(ctx, db, s)
	if err != nil || version == len(known) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	if version, err = schemaVersion(ctx, tx, s); err != nil {
		return err
	}
	for _, m := range known[version:] {
		if _, err := tx.ExecContext(ctx, m.text); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
		note := fmt.Sprintf("insert into %smigration (version, applied_at) values (?1, unixepoch() * 1000000)", s.prefix)
		if _, err := tx.ExecContext(ctx, note, m.version); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
	}
	return tx.Commit()
}

// schemaVersion is 0 where there is no schema.
func schemaVersion(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, s *statements,
) (int, error) {
	var n int
	table := s.prefix + "migration"
	err := db.QueryRowContext(ctx, "select count(*) from sqlite_schema where type = 'table' and name = ?1", table).Scan(&n)
	if err != nil || n == 0 {
		return 0, err
	}
	if err := db.QueryRowContext(ctx, "select coalesce(max(version), 0) from "+table).Scan(&n); err != nil {
		return 0, err
	}
	known, err := s.migrations()
	if err == nil && n > len(known) {
		err = fmt.Errorf("%w: the file has version %d of the schema, this program knows %d; use a newer program", dibs.ErrSchema, n, len(known))
	}
	return n, err
}
