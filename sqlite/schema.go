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
	version, err := schemaVersion(ctx, db, s, len(known))
	if err == nil && version >= len(known) {
		return forgetStatistics(ctx, db, s)
	}
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	if version, err = schemaVersion(ctx, tx, s, len(known)); err != nil {
		return err
	}
	for _, m := range known[min(version, len(known)):] {
		if _, err := tx.ExecContext(ctx, m.text); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
	}
	return tx.Commit()
}

// forgetStatistics deletes what ANALYZE or "pragma optimize" has noted of dibs' tables.
// Connections read it when they are opened, and never again: had a table been nearly
// empty when it was noted, each claim and finish would read it from end to end, however
// large it became. Without statistics they use the indexes.
func forgetStatistics(ctx context.Context, db *sql.DB, s *statements) error {
	for _, table := range []string{"sqlite_stat1", "sqlite_stat4"} {
		var found int
		err := db.QueryRowContext(ctx, "select count(*) from sqlite_schema where name = ?1", table).Scan(&found)
		if err == nil && found > 0 {
			err = db.QueryRowContext(ctx, "select count(*) from "+table+" where substr(tbl, 1, length(?1)) = ?1", s.prefix).Scan(&found)
		}
		if err == nil && found > 0 {
			_, err = db.ExecContext(ctx, "delete from "+table+" where substr(tbl, 1, length(?1)) = ?1", s.prefix)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// schemaVersion is 0 where there is no schema. It fails with dibs.ErrSchema if a
// program that knows so many versions may not use it.
func schemaVersion(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, s *statements, know int,
) (version int, err error) {
	var needs int
	table := s.prefix + "migration"
	err = db.QueryRowContext(ctx, "select count(*) from sqlite_schema where type = 'table' and name = ?1", table).Scan(&version)
	if err != nil || version == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "select coalesce(max(version), 0), coalesce(max(compatible_with), 0) from "+table).Scan(&version, &needs)
	if err == nil && needs > know {
		err = fmt.Errorf("%w: the file has version %d of the schema, which needs a program that knows version %d, and this one knows %d; use a newer program",
			dibs.ErrSchema, version, needs, know)
	}
	return version, err
}
