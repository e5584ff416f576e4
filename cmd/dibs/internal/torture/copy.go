package torture

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v4"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// Copy is a copy of an adopted table, in its own schema or file.
type Copy struct {
	Adopted
	URL    open.URL // the copy's database
	Text   string   // where the copy is, for messages
	schema string   // the copy's schema on PostgreSQL
}

// CopyTable makes a copy of a mapping's table, with its files in dir. From the table itself it
// only reads some rows.
func CopyTable(ctx context.Context, u open.URL, o open.Options, m mapping.Mapping, dir string) (c *Copy, err error) {
	c = &Copy{URL: u}
	if open.IsMariaDB(u) {
		return nil, &dibs.InvalidError{Field: "table", Reason: "is on MariaDB; only tables of PostgreSQL and SQLite can be tortured"}
	}
	path, _, err := open.Place(u)
	if err != nil {
		return nil, err
	}
	original, err := open.SQL(ctx, u, o)
	if err != nil {
		return nil, err
	}
	c.SQL, c.SQLite, c.M = original, path != "", m
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx), false))
		}
	}()
	copyTable := c.inSchema
	if c.SQLite {
		copyTable = func(ctx context.Context, table string) (string, error) { return c.inFile(ctx, table, path, dir) }
	}
	if m.Table, err = advice.Find(ctx, original, m.Table); err != nil {
		return c, err
	}
	table, err := copyTable(ctx, m.Table)
	if err != nil {
		return c, fmt.Errorf("copy the table %s: %w", m.Table, err)
	}
	c.M, c.Mapping = forTorture(m, table), filepath.Join(dir, "mapping.yaml")
	text, err := yaml.Marshal(c.M)
	if err == nil {
		err = os.WriteFile(c.Mapping, text, 0o600)
	}
	if err == nil {
		c.Table, err = adopt.Open(ctx, c.SQL, c.M)
	}
	if err == nil {
		err = c.Prepare(ctx, c.schema)
	}
	return c, err
}

// inSchema makes the copy in a new schema.
func (c *Copy) inSchema(ctx context.Context, table string) (string, error) {
	schema, name, ok := strings.Cut(table, ".")
	from := pgx.Identifier{schema, name}.Sanitize()
	if !ok {
		name, from = table, pgx.Identifier{table}.Sanitize()
	}
	c.schema = "dibs_torture_" + strings.ToLower(rand.Text()[:8])
	c.Text = "a copy of " + table + " in PostgreSQL, schema " + c.schema
	to := pgx.Identifier{c.schema, name}.Sanitize()
	for _, text := range []string{
		"create schema " + c.schema,
		"create table " + to + " (like " + from + " including all excluding identity)",
	} {
		if _, err := c.SQL.ExecContext(ctx, text); err != nil {
			return "", err
		}
	}
	if err := c.dropUnique(ctx, to); err != nil {
		return "", err
	}
	err := c.fill(ctx, c.SQL, from, to, qualify.Text("select attname from pg_attribute where attrelid = '"+strings.ReplaceAll(to, "'", "''")+
		"'::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attnum"))
	return c.schema + "." + name, err
}

// inFile makes the copy in a new file.
func (c *Copy) inFile(ctx context.Context, table, path, dir string) (string, error) {
	file := filepath.Join(dir, "adopted.db")
	c.URL, c.Text = open.URL("sqlite:"+file), "a copy of "+table+" in the SQLite file "+file
	original := c.SQL
	defer original.Close()
	c.SQL = nil
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return "", err
	}
	db, err := open.SQL(ctx, open.URL("sqlite:"+file), open.Options{})
	if err != nil {
		return "", err
	}
	c.SQL = db
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var mode string
	if err := original.QueryRowContext(ctx, "pragma journal_mode").Scan(&mode); err == nil && mode == "wal" {
		_, err = conn.ExecContext(ctx, "pragma journal_mode = wal")
		if err != nil {
			return "", err
		}
	}
	dropped, err := c.findUnique(ctx, original, table)
	if err != nil {
		return "", err
	}
	rows, err := original.QueryContext(ctx, "select name, sql from sqlite_master where lower(tbl_name) = lower(?) and type in ('table', 'index') and sql is not null order by type desc", table)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	made := 0
	for ; rows.Next(); made++ {
		var index, text string
		if err := rows.Scan(&index, &text); err != nil {
			return "", err
		}
		if slices.Contains(dropped, index) {
			continue
		}
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return "", err
		}
	}
	if err := rows.Err(); err != nil || made == 0 {
		return "", errors.Join(err, &dibs.InvalidError{Field: "table", Reason: "there is no table " + table})
	}
	if _, err := conn.ExecContext(ctx, "attach database ? as original", path); err != nil {
		return "", err
	}
	name := pgx.Identifier{table}.Sanitize() // SQLite quotes names in the same way
	err = c.fill(ctx, conn, "original."+name, "main."+name, "select name from pragma_table_xinfo('"+strings.ReplaceAll(table, "'", "''")+"') where hidden = 0")
	_, detached := conn.ExecContext(ctx, "detach database original")
	return table, errors.Join(err, detached)
}

// fill copies some rows. The statement columns selects the names of the columns that can be
// written.
func (c *Copy) fill(ctx context.Context, db dibs.SQLTx, from, to, columns string) error {
	rows, err := db.QueryContext(ctx, columns)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		c.Columns = append(c.Columns, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, templates(c.M, from, to, c.Columns))
	return err
}

// Close removes the copy, unless keep is set, and closes its database.
func (c *Copy) Close(ctx context.Context, keep bool) error {
	if c.SQL == nil {
		return nil
	}
	var err error
	if c.schema != "" && !keep {
		_, err = c.SQL.ExecContext(ctx, "drop schema if exists "+c.schema+" cascade")
	}
	return errors.Join(err, c.SQL.Close())
}
