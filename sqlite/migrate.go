package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

// migration is the SQL of a migration, and the insert that records it in the table migration.
func (s *statements) migration(m sqlfiles.Migration) string {
	return s.named(m.Text) + fmt.Sprintf("\ninsert into %smigration (version, compatible_with, applied_at) values (%d, %d, unixepoch() * 1000000);\n",
		s.prefix, m.Version, m.Compatible)
}

// Migrations returns the SQL that Open runs on a schema of version since, to be applied by
// other means, in one transaction, which it does not begin. since 0 returns all of it.
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
		out.WriteString(s.migration(m))
	}
	return out.String(), nil
}

// Migrate makes or upgrades dibs' tables in the file at path, as Open does, but also in a
// file with another program's tables, which it does not change. The file is then in SQLite's
// WAL mode for all its users.
func Migrate(ctx context.Context, path string, o Options) error {
	_, db, err := migrate(ctx, path, &o, true)
	if err != nil {
		return err
	}
	return db.Close()
}

// migrate brings the schema of the file at path up to date, under the file's write lock: if
// several processes open the file at once, one of them does the work. If the file holds only
// tables of other programs, it is changed only if add is true. The file gets WAL mode, for
// good, once all tables are there. migrate returns a pool with the connection that did this, as
// a writer's pool: each new connection first reads the whole schema, which is most of the work.
func migrate(ctx context.Context, path string, o *Options, add bool) (s *statements, db *sql.DB, err error) {
	if err := checks.Context(ctx); err != nil {
		return nil, nil, err
	}
	if s, err = o.complete(); err != nil {
		return nil, nil, err
	}
	known := sqlfiles.Migrations(files)
	if err := checkPath(path); err != nil {
		return nil, nil, err
	}
	existing := o.Existing && !add
	if !existing {
		if err := makeFile(path, o.FileMode); err != nil {
			return nil, nil, opening(path, err)
		}
	}
	version, run := 0, []string(nil)
	err = retryBusy(ctx, o.BusyTimeout, func() (err error) {
		db = openPool(dataSource(path, *o).writer, nil, 0) // the pool connects when it is first used
		defer func() {
			if err != nil {
				_ = db.Close() // err says what went wrong
			}
		}()
		version, err = glance(ctx, db, path, s, len(known), add, existing)
		if existing && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: it does not exist", ErrNoTables)
		}
		if err != nil {
			return err
		}
		if existing && version == 0 {
			return ErrNoTables
		}
		if version < len(known) {
			run, err = upgrade(ctx, db, s, known, add)
			version = len(known)
		} else {
			err = forgetStatistics(ctx, db, s)
		}
		if err != nil {
			return err
		}
		return setWAL(ctx, db)
	})
	if err != nil {
		return nil, nil, opening(path, err)
	}
	if o.Migrated != nil && add {
		o.Migrated(version, run)
	}
	return s, db, nil
}

// glance reads the schema's version, and changes nothing in a file that it refuses.
//
// If there is a -wal, it reads by another connection that is read-only: to close a connection that may
// write would move the changes of a dead program from the -wal into the file. Otherwise it reads by db,
// which may write, so that SQLite deletes the -wal and -shm that reading makes. That would also undo the
// unfinished transaction of a dead program, so a file with a -journal is first read as it is. A file
// whose first transaction was never committed counts as empty; in an empty file tables are made unless
// existing is true.
func glance(ctx context.Context, db *sql.DB, path string, s *statements, know int, add, existing bool) (version int, err error) {
	// SQLite has the -wal and the -journal beside the file, not beside a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return 0, err
	}
	look := func(settings url.Values) (int, error) {
		db := openPool(fileURL(path, "ro", settings), nil, 0)
		defer db.Close()
		return schemaVersion(ctx, db, s, know, add)
	}
	switch {
	case hasContent(path + "-wal"):
		return look(url.Values{}) // makes a -shm at most
	case hasContent(path + "-journal"):
		if _, err := look(url.Values{}); !isHot(err) {
			if err != nil {
				return 0, err
			}
			break // the journal belongs to a transaction under way
		}
		version, err := look(url.Values{"immutable": {"1"}})
		switch {
		case errors.Is(err, dibs.ErrSchema):
			return 0, err
		case !add && (err != nil || version == 0) && (existing || !beganEmpty(path+"-journal")):
			return 0, fmt.Errorf("%w: a program that has died has left the file half written, without tables of dibs; let that program open it, or have 'dibs migrate' or sqlite.Migrate undo that and add the tables",
				dibs.ErrSchema)
		}
	}
	return schemaVersion(ctx, db, s, know, add)
}

func hasContent(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// beganEmpty reads in a rollback journal whether the file was empty before the transaction. See
// "The Rollback Journal" in SQLite's description of its file format.
func beganEmpty(journal string) bool {
	f, err := os.Open(journal)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) // without a journal, the transaction has just ended
	}
	defer f.Close()
	var header [20]byte
	_, err = io.ReadFull(f, header[:])
	return err == nil && binary.BigEndian.Uint32(header[16:]) == 0
}

// upgrade runs the migrations that the file lacks, in one transaction, and returns their names.
func upgrade(ctx context.Context, db *sql.DB, s *statements, known []sqlfiles.Migration, add bool) (run []string, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	version, err := schemaVersion(ctx, tx, s, len(known), add)
	if err != nil {
		return nil, err
	}
	for _, m := range known[min(version, len(known)):] {
		if _, err := tx.ExecContext(ctx, s.migration(m)); err != nil {
			return nil, fmt.Errorf("migration %d: %w", m.Version, err)
		}
		run = append(run, m.Name)
	}
	return run, tx.Commit()
}

// setWAL puts the file into WAL mode, for good. While it does, nobody may read the file. So
// it must wait for readers: a single try would fail while other processes look at the file to
// open it. SQLite lets nobody else begin to read while it waits.
func setWAL(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "pragma busy_timeout = 1000"); err != nil {
		return err
	}
	var mode string
	err = conn.QueryRowContext(ctx, "pragma journal_mode = wal").Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("%w: the file stays in journal mode %s, dibs needs WAL mode; it must be on a local disk", dibs.ErrUnavailable, mode)
	}
	if err == nil { // turn.begin waits for the lock of the file, so the driver must not
		_, err = conn.ExecContext(ctx, "pragma busy_timeout = 0")
	}
	return err
}

// forgetStatistics deletes the statistics of ANALYZE and "pragma optimize" on dibs' tables.
// Connections read statistics only when they are opened: if a table was nearly empty when
// they were made, each claim and finish would read all of it, however large it became.
// Without statistics they use the indexes.
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

// schemaVersion reads the schema's version, 0 if there is no schema. It fails with
// dibs.ErrSchema if the schema needs a program that knows a later version than know, or if
// add is false and the file holds only tables of other programs or has another program's id.
func schemaVersion(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, s *statements, know int, add bool,
) (version int, err error) {
	const count = `select
		count(*) filter (where type = 'table' and name = ?1 collate nocase),
		count(*) filter (where name not like 'sqlite!_%' escape '!') + (select application_id <> 0 from pragma_application_id),
		(select count(*) from pragma_table_info(?1) where name in ('version', 'compatible_with', 'applied_at'))
		from sqlite_schema`
	var needs, ours, others, columns int
	table := s.prefix + "migration"
	err = db.QueryRowContext(ctx, count, table).Scan(&ours, &others, &columns)
	switch {
	case err != nil:
		return 0, err
	case ours == 0 && others > 0 && !add:
		return 0, fmt.Errorf("%w under the prefix %q, it is another program's; name another file or prefix, or have 'dibs migrate' or sqlite.Migrate add them to it",
			ErrNoTables, s.prefix)
	case ours == 0:
		return 0, nil
	case columns != 3:
		return 0, fmt.Errorf("%w: the table %s is another program's; give another prefix", dibs.ErrSchema, table)
	}
	err = db.QueryRowContext(ctx, "select coalesce(max(version), 0), coalesce(max(compatible_with), 0) from "+table).Scan(&version, &needs)
	if err == nil && needs > know {
		err = fmt.Errorf("%w: the file has version %d of the schema, which needs a program that knows version %d, and this one knows %d; use a newer program",
			dibs.ErrSchema, version, needs, know)
	}
	return version, err
}
