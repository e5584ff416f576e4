package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/torture"
	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v4"
)

// tortureTable runs the torture on a copy of the adopted table.
func (a *app) tortureTable(ctx context.Context, o tortureOptions) (err error) {
	m, err := readMapping(a.table)
	if err != nil {
		return err
	}
	if c := m.Claim; !m.SideTable && c.Token+c.LockedBy+c.StartedAt+c.Timeout+c.Attempts == "" && len(c.Set) == 0 {
		return &dibs.InvalidError{Field: "claim", Reason: "names nothing that a claim could write: a row is held by a transaction alone then, which the torture does not try"}
	}
	dir, remove, err := tortureDir(o.history)
	if err != nil {
		return err
	}
	broken := false
	defer func() {
		if !broken {
			err = errors.Join(err, remove())
		}
	}()
	c, err := a.copyTable(ctx, m, dir)
	if err != nil {
		return err
	}
	defer func() {
		if broken {
			fmt.Fprintf(a.stderr, "kept: the copy: %s\n", c.place.text)
		}
		err = errors.Join(err, c.close(context.WithoutCancel(ctx), broken))
	}()
	spawner := newSpawner()
	defer spawner.close()
	screen := a.newTortureScreen(o, c.place)
	giveUp, stop := secondInterrupt()
	defer stop()
	result, err := torture.RunAdopted(ctx, torture.Config{
		About: torture.About{
			Dibs: readVersion().Version, Command: o.command(a.dbURL()) + " --table " + shellWord(a.table), Adopted: m.Table,
			Workers: o.workers, Seed: o.seed, Duration: o.duration,
		},
		DB: torture.OnTable(c.Table), URL: c.place.url.Reveal(), Dir: dir, Adopted: &c.Adopted,
		Processes: tortureProcesses{c.place, spawner}, Watch: screen.watch, GiveUp: giveUp,
	})
	screen.close()
	if err != nil {
		return a.untortured(ctx, o, err)
	}
	broken = !result.Kept()
	return a.reportTorture(result, o.report, o.history != "")
}

// tableCopy is a copy of the adopted table, in a schema or a file of its own.
type tableCopy struct {
	torture.Adopted
	place  *place
	schema string // PostgreSQL only
}

// copyTable makes the copy. It only reads some rows of the table itself.
func (a *app) copyTable(ctx context.Context, m mapping.Mapping, dir string) (c *tableCopy, err error) {
	c = &tableCopy{place: &place{url: a.dbURL()}}
	path, _, err := open.Place(a.dbURL())
	if err != nil {
		return nil, err
	}
	original, err := a.sqlDB(ctx)
	if err != nil {
		return nil, err
	}
	c.SQL, c.SQLite, c.M = original, path != "", m
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(context.WithoutCancel(ctx), false))
		}
	}()
	make := c.inSchema
	if c.SQLite {
		make = func(ctx context.Context, table string) (string, error) { return c.inFile(ctx, table, path, dir) }
	}
	if m.Table, err = advice.Find(ctx, original, m.Table); err != nil {
		return c, err
	}
	table, err := make(ctx, m.Table)
	if err != nil {
		return c, fmt.Errorf("copy the table %s: %w", m.Table, err)
	}
	c.M, c.Mapping = torture.ForTorture(m, table), filepath.Join(dir, "mapping.yaml")
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

// inSchema creates the copy in a schema of its own.
func (c *tableCopy) inSchema(ctx context.Context, table string) (string, error) {
	schema, name, ok := strings.Cut(table, ".")
	from := pgx.Identifier{schema, name}.Sanitize()
	if !ok {
		name, from = table, pgx.Identifier{table}.Sanitize()
	}
	c.schema = "dibs_torture_" + randomName()
	c.place.text = "a copy of " + table + " in PostgreSQL, schema " + c.schema
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

// inFile creates the copy in a file of its own.
func (c *tableCopy) inFile(ctx context.Context, table, path, dir string) (string, error) {
	file := filepath.Join(dir, "adopted.db")
	c.place.url, c.place.text = open.URL("sqlite:"+file), "a copy of "+table+" in the SQLite file "+file
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

type sqlConn interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// fill copies rows. columns is the query for the columns that can be written.
func (c *tableCopy) fill(ctx context.Context, db sqlConn, from, to, columns string) error {
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
	_, err = db.ExecContext(ctx, torture.Templates(c.M, from, to, c.Columns))
	return err
}

// close removes the copy, unless it is kept.
func (c *tableCopy) close(ctx context.Context, keep bool) error {
	if c.SQL == nil {
		return nil
	}
	var err error
	if c.schema != "" && !keep {
		_, err = c.SQL.ExecContext(ctx, "drop schema if exists "+c.schema+" cascade")
	}
	return errors.Join(err, c.SQL.Close())
}
