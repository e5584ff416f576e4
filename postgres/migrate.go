package postgres

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/session"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
)

// A migration sets search_path to pg_catalog, so that the defaults and indexes that it makes
// refer to the server's own functions for good. At the end it restores the session's path.
const (
	ownPath = "select pg_catalog.set_config('dibs_migrate.path', pg_catalog.current_setting('search_path'), true);\n" +
		"set local search_path = pg_catalog, pg_temp;\n"
	pathBack = "select pg_catalog.set_config('search_path', pg_catalog.current_setting('dibs_migrate.path'), true);"
)

// migrations lists the migrations in order. In their texts the schema is named dibs.
var migrations = sync.OnceValue(func() []sqlfiles.Migration { return sqlfiles.Migrations(files) })

// relations are the tables and sequences that migrations make. Open looks for them by these names: a regular expression
// would take the server a millisecond.
func relations(list []sqlfiles.Migration) (names []string) {
	for _, m := range list {
		for line := range strings.Lines(m.Text) {
			created, ok := strings.CutPrefix(line, "create table dibs.")
			if !ok {
				created, ok = strings.CutPrefix(line, "create sequence dibs.")
			}
			if ok {
				name, _, _ := strings.Cut(strings.TrimSpace(created), " ")
				names = append(names, strings.TrimSuffix(name, ";"))
			}
		}
	}
	return names
}

// sqlOf is the SQL of a migration in a schema, and the insert that records it in the table migration.
func sqlOf(m sqlfiles.Migration, schema string) string {
	return fmt.Sprintf("%s\n%s\n\ninsert into %s.migration (version, compatible_with) values (%d, %d);\n%s\n", ownPath, strings.TrimSpace(inSchema(m.Text, schema)),
		ident(schema), m.Version, m.Compatible, pathBack)
}

// Migrations returns the SQL that Migrate runs on a schema of version since, to be applied by
// other means, in one transaction, which it does not begin. since 0 returns all of it.
func Migrations(o Options, since int) (string, error) {
	if err := checkSchemaName(o.schema()); err != nil {
		return "", err
	}
	list, err := sqlfiles.Since(migrations(), since)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range list {
		fmt.Fprintf(&b, "-- %s\n%s\n", m.Name, sqlOf(m, o.schema()))
	}
	return b.String(), nil
}

// Migrate brings the schema to this version, making it if need be. Several
// processes may call it at once: an advisory lock lets one do the work. It needs
// the right to create the schema; nothing else in this package needs DDL rights.
//
// Workers may go on meanwhile. While other transactions use the tables to be changed, it
// tries again and again until ctx ends, so that no other call waits behind it for longer
// than a second.
func Migrate(ctx context.Context, url string, o Options) error {
	if err := checks.Context(ctx); err != nil {
		return err
	}
	if err := checkSchemaName(o.schema()); err != nil {
		return err
	}
	config, _, err := session.Parse(url)
	if err != nil {
		return err
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // works behind any pooler
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return wrap("migrate", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var encoding string
	if err := conn.QueryRow(ctx, "show server_encoding").Scan(&encoding); err != nil {
		return wrap("migrate", err)
	}
	if encoding != "UTF8" {
		return &dibs.InvalidError{Field: "database", Reason: "must have the encoding UTF8, has " + encoding}
	}
	list := migrations()
	var run []string
	for {
		version, err := migrateStep(ctx, conn, o.schema(), list)
		if isLocked(err) {
			select {
			case <-time.After(lockPause):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return err
		}
		if version < len(list) {
			run = append(run, list[version].Name)
			continue
		}
		if o.Migrated != nil {
			o.Migrated(version, run)
		}
		return nil
	}
}

const (
	// boundWaits limits how long a migration waits for a lock, since every later statement on
	// the table waits behind it. How long it works is not limited, whatever the role's
	// settings.
	boundWaits = "set local lock_timeout = '1s'; set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0"
	lockPause  = time.Second // the pause between two attempts
)

// migrateStep applies the first missing migration, in one transaction. It returns the version
// before it; if no migration was missing, that is the newest.
func migrateStep(ctx context.Context, conn *pgx.Conn, schema string, list []sqlfiles.Migration) (version int, err error) {
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Conn().PgConn().Exec(ctx, boundWaits).ReadAll(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "select pg_catalog.pg_advisory_xact_lock($1)", lockKey(schema, "migrate")); err != nil {
			return err
		}
		var needs int
		if version, needs, err = schemaVersion(ctx, tx, schema, list); err != nil {
			return err
		}
		if version >= len(list) {
			return tooNew(schema, version, needs, len(list))
		}
		_, err = tx.Conn().PgConn().Exec(ctx, sqlOf(list[version], schema)).ReadAll()
		return err
	})
	return version, wrap("migrate", err)
}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schemaVersion reads the schema's version (0 if there is no schema or an empty one), and the
// version that a program must know to use it. It fails with dibs.ErrSchema if some of dibs'
// tables are missing, or if tables of these names belong to another program.
func schemaVersion(ctx context.Context, q queryer, schema string, list []sqlfiles.Migration) (version, needs int, err error) {
	const look = `select
		array(
			select c.relname::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
			where n.nspname = $1::text and c.relname = any ($2::text[]) order by 1
		),
		exists (
			select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
				join pg_catalog.pg_attribute a on a.attrelid = c.oid
			where n.nspname = $1::text and c.relname = 'migration' and a.attname = 'compatible_with'
		)`
	const once = pgx.QueryExecModeExec // a program asks once, so preparing the statement would only cost a round trip
	var there []string
	var ours bool
	if err := q.QueryRow(ctx, qualify.Text(look), once, schema, relations(list)).Scan(&there, &ours); err != nil || len(there) == 0 {
		return 0, 0, err
	}
	if !ours {
		return 0, 0, checks.Failed("", fmt.Errorf("schema %q holds %s, and no table %q of dibs: it is not dibs' own; name another schema: %w",
			schema, strings.Join(there, ", "), "migration", dibs.ErrSchema))
	}
	err = q.QueryRow(ctx, qualify.Text(inSchema("select coalesce(max(version), 0), coalesce(max(compatible_with), 0) from dibs.migration", schema)), once).Scan(&version, &needs)
	if err != nil {
		return 0, 0, err
	}
	lacks := slices.DeleteFunc(relations(list[:min(version, len(list))]), func(name string) bool { return slices.Contains(there, name) })
	if len(lacks) > 0 || version == 0 {
		return 0, 0, checks.Failed("", fmt.Errorf("schema %q is only in part there: it has version %d and lacks %s; if a dibs from before the first release made it, there is no upgrade: let that program end its jobs; if these were dropped, restore them from a backup; or give up its jobs with `drop schema %s cascade`, and run `dibs migrate`: %w",
			schema, version, cmp.Or(strings.Join(lacks, ", "), "the rows of migration"), ident(schema), dibs.ErrSchema))
	}
	return version, needs, nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	list := migrations()
	version, needs, err := schemaVersion(ctx, s.pool, s.o.schema(), list)
	switch {
	case hasCode(err, "42501"): // insufficient_privilege
		return wrap("open", s.denied(ctx, err))
	case err != nil:
		return wrap("open", err)
	case version == 0:
		return checks.Failed("", fmt.Errorf("schema %q is missing in this database; run `dibs migrate`: %w", s.o.schema(), dibs.ErrSchema))
	case version < len(list):
		return checks.Failed("", fmt.Errorf("schema %q has version %d, this program needs %d; run `dibs migrate`: %w", s.o.schema(), version, len(list), dibs.ErrSchema))
	}
	return tooNew(s.o.schema(), version, needs, len(list))
}

func tooNew(schema string, version, needs, know int) error {
	if needs <= know {
		return nil
	}
	return checks.Failed("", fmt.Errorf("schema %q has version %d, which needs a program that knows version %d, and this one knows up to %d; use a newer dibs: %w",
		schema, version, needs, know, dibs.ErrSchema))
}

var schemaName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,62}$`)

func checkSchemaName(schema string) error {
	if !schemaName.MatchString(schema) {
		return &dibs.InvalidError{Field: "schema", Reason: fmt.Sprintf("must be 1 to 63 letters, digits and underscores, not beginning with a digit, got %q", schema)}
	}
	if lower := strings.ToLower(schema); lower == "information_schema" || strings.HasPrefix(lower, "pg_") {
		return &dibs.InvalidError{Field: "schema", Reason: fmt.Sprintf("must not be one of the server's own, got %q", schema)}
	}
	return nil
}
