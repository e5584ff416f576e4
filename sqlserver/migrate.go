package sqlserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

// Migrations returns the SQL that Open runs on a schema of version since, to be applied by
// other means. since 0 returns all of it. A line "go" ends a batch, as sqlcmd and Management Studio read it.
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
		out.WriteString(s.named(m.Text) + endOfBatch + s.applied(m) + ";\n" + endOfBatch)
	}
	return out.String(), nil
}

// endOfBatch ends a batch: a view is made in one of its own.
const endOfBatch = "\ngo\n"

// applied is the insert that records a migration.
func (s *statements) applied(m sqlfiles.Migration) string {
	return fmt.Sprintf("insert into %smigration (version, compatible_with, applied_at) values (%d, %d, datediff_big(microsecond, '19700101', sysutcdatetime()))",
		s.prefix, m.Version, m.Compatible)
}

// Migrate makes or upgrades dibs' tables in the database at a URL, as Open does.
func Migrate(ctx context.Context, url string, o Options) error {
	o.Existing = false
	s, err := open(ctx, url, &o, true)
	if err != nil {
		return err
	}
	return s.release()
}

// migrate brings the schema up to date, in one transaction.
func (s *Store) migrate(ctx context.Context, o *Options, migrating bool) error {
	known := sqlfiles.Migrations(files)
	version, err := s.schemaVersion(ctx, s.pool, len(known))
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

// migrateWithin is for how many milliseconds a process waits for another one that makes the tables.
const migrateWithin = 60_000

// takeMigration keeps other processes from making the tables until the transaction ends.
const takeMigration = `declare @got int;
exec @got = sys.sp_getapplock @Resource = N'%smigrate', @LockMode = 'Exclusive', @LockOwner = 'Transaction', @LockTimeout = %d;
select @got;`

func (s *Store) upgrade(ctx context.Context, known []sqlfiles.Migration) (run []string, err error) {
	c, err := s.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close() // an error is ignored: the transaction has ended
	tx, err := begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer tx.stop()
	defer tx.rollback() // after a commit it has nothing to do
	on := conn{tx.Tx, false}
	var got int
	if err := rowstore.One(ctx, on, fmt.Sprintf(takeMigration, s.sql.prefix, migrateWithin), &got); err != nil {
		return nil, err
	}
	if got < 0 {
		return nil, fmt.Errorf("%w: another process has been making the tables for a minute", dibs.ErrUnavailable)
	}
	version, err := s.schemaVersion(ctx, s.side, len(known)) // beside the transaction, which an unknown table would end
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "set xact_abort on"); err != nil { // until the connection goes back to the pool
		return nil, err
	}
	for _, m := range known[min(version, len(known)):] {
		for _, text := range append(batches(s.sql.named(m.Text)), s.sql.applied(m)) {
			if _, err := tx.ExecContext(ctx, text); err != nil { // a view is made by the first statement of a batch
				return nil, fmt.Errorf("migration %d: %w", m.Version, err)
			}
		}
		run = append(run, m.Name)
	}
	return run, tx.commit()
}

// batches are the parts of a migration that are sent one after the other.
func batches(text string) []string { return strings.Split(strings.TrimSpace(text), endOfBatch) }

// schemaVersion reads the schema's version, 0 if there is no schema. It fails with
// dibs.ErrSchema if the schema needs a program that knows a later version than know.
func (s *Store) schemaVersion(ctx context.Context, on dibs.SQLTx, know int) (version int, err error) {
	var needs int
	table := s.sql.prefix + "migration"
	err = rowstore.One(ctx, conn{on, true}, "select coalesce(max(version), 0), coalesce(max(compatible_with), 0) from "+table, &version, &needs)
	switch {
	case code(err) == codeNoObject:
		return 0, nil
	case code(err) == codeNoColumn:
		return 0, fmt.Errorf("%w: the table %s is another program's; give another prefix", dibs.ErrSchema, table)
	case err == nil && needs > know:
		err = fmt.Errorf("%w: the database has version %d of the schema, which needs a program that knows version %d, and this one knows %d; use a newer program",
			dibs.ErrSchema, version, needs, know)
	}
	return version, err
}
