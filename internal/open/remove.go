package open

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/session"
)

// Remove drops the schema of the options, or on SQLite the tables and views of their prefix.
// It reports whether the SQLite file is then empty.
func Remove(ctx context.Context, u URL, o Options) (empty bool, err error) {
	t, err := parse(u, o)
	if err != nil {
		return false, err
	}
	if t.sqlite == "" {
		return false, dropSchema(ctx, t.postgres, o.Schema)
	}
	db, err := openFile(t.sqlite)
	if err != nil {
		return false, err
	}
	empty, err = dropTables(ctx, db, o.Prefix)
	return empty, errors.Join(err, db.Close())
}

func dropSchema(ctx context.Context, server, schema string) error {
	conn, err := session.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
	return err
}

// dropTables drops the tables and views with the prefix; indexes and triggers go with their
// tables. Views go first, since SQLite does not drop a table under one.
func dropTables(ctx context.Context, db *sql.DB, prefix string) (empty bool, err error) {
	rows, err := db.QueryContext(ctx, "select type, name from sqlite_schema where type in ('table', 'view') and substr(name, 1, length(?1)) = ?1 order by type desc", prefix)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var kind, name string
		if err := rows.Scan(&kind, &name); err != nil {
			return false, err
		}
		drops = append(drops, fmt.Sprintf(`drop %s "%s"`, kind, name))
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	for _, drop := range drops {
		if _, err := db.ExecContext(ctx, drop); err != nil {
			return false, err
		}
	}
	err = db.QueryRowContext(ctx, "select count(*) = 0 from sqlite_schema where name not like 'sqlite_%'").Scan(&empty)
	return empty, err
}
