package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

// Migrations returns the SQL that Open runs on a schema of version since, to be applied by
// other means. since 0 returns all of it.
func Migrations(o Options, since int) (string, error) {
	s, err := load(o.Prefix)
	if err != nil {
		return "", err
	}
	list, err := sqlfiles.Since(sqlfiles.Migrations(files), since)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, m := range list {
		out.WriteString(s.named(m.Text) + "\n" + s.applied(m) + ";\n")
	}
	return out.String(), nil
}

// applied is the insert that records a migration.
func (s *statements) applied(m sqlfiles.Migration) string {
	return fmt.Sprintf("insert ignore into %smigration (version, compatible_with, applied_at) values (%d, %d, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))",
		s.prefix, m.Version, m.Compatible)
}

// Migrate makes or upgrades dibs' tables in the database at an address, as Open does.
func Migrate(ctx context.Context, address string, o Options) error {
	o.Existing = false
	s, err := open(ctx, address, &o, true)
	if err != nil {
		return err
	}
	return s.release()
}

// migrate brings the schema up to date. Statements that make tables cannot be rolled back, but change nothing when they are
// run again; the version is written last. A lock of the server's keeps processes that open the database at once apart.
func (s *Store) migrate(ctx context.Context, o *Options, migrating bool) error {
	known := sqlfiles.Migrations(files)
	version, err := s.schemaVersion(ctx, len(known))
	if err == nil && version == 0 && o.Existing {
		err = ErrNoTables
	}
	if err != nil {
		return err
	}
	var run []string
	if version < len(known) {
		if run, err = s.upgrade(ctx, known); err != nil {
			return err
		}
	}
	if o.Migrated != nil && migrating {
		o.Migrated(max(version, len(known)), run)
	}
	return nil
}

// migrateWithin is how long a process waits for another one that makes the tables.
const migrateWithin = time.Minute

func (s *Store) upgrade(ctx context.Context, known []sqlfiles.Migration) (run []string, err error) {
	c, err := s.any().pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var got sql.NullInt64
	name := "concat(database(), '." + s.sql.prefix + "migrate')"
	if err := c.QueryRowContext(ctx, "select get_lock("+name+", ?)", int(migrateWithin.Seconds())).Scan(&got); err != nil {
		return nil, err
	}
	if got.Int64 != 1 {
		return nil, fmt.Errorf("%w: another process has been making the tables for %v", dibs.ErrUnavailable, migrateWithin)
	}
	defer c.ExecContext(context.WithoutCancel(ctx), "do release_lock("+name+")") //nolint:errcheck // the end of the connection releases it too
	version, err := s.schemaVersion(ctx, len(known))
	if err != nil {
		return nil, err
	}
	for _, m := range known[min(version, len(known)):] {
		for _, text := range []string{s.sql.named(m.Text), s.sql.applied(m)} {
			if _, err := c.ExecContext(ctx, text); err != nil {
				return nil, fmt.Errorf("migration %d: %w", m.Version, err)
			}
		}
		run = append(run, m.Name)
	}
	return run, nil
}

// schemaVersion reads the schema's version, 0 if there is no schema. It fails with
// dibs.ErrSchema if the schema needs a program that knows a later version than know.
func (s *Store) schemaVersion(ctx context.Context, know int) (version int, err error) {
	var needs int
	table := s.sql.prefix + "migration"
	err = s.any().pool.QueryRowContext(ctx, "select coalesce(max(version), 0), coalesce(max(compatible_with), 0) from "+table).Scan(&version, &needs)
	switch {
	case unknownTable(err):
		return 0, nil
	case code(err) == codeNoColumn:
		return 0, fmt.Errorf("%w: the table %s is another program's; give another prefix", dibs.ErrSchema, table)
	case err == nil && needs > know:
		err = fmt.Errorf("%w: the database has version %d of the schema, which needs a program that knows version %d, and this one knows %d; use a newer program",
			dibs.ErrSchema, version, needs, know)
	}
	return version, err
}
