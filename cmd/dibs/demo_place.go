package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/jackc/pgx/v5"
)

// demoPlace is where the demo keeps its jobs: tables that nobody else uses.
type demoPlace struct {
	db   dibs.Database
	url  string
	opts open.Options
	text string // such as "a SQLite file of its own"
}

// demoPlace makes a SQLite file in dir or, with --db, a schema or prefix with a
// name that is not yet taken.
func (a *app) demoPlace(ctx context.Context, dir string) (*demoPlace, error) {
	p := &demoPlace{url: a.dbFlag}
	name := "dibs_demo_" + randomName()
	switch {
	case p.url == "":
		p.url = "sqlite:" + filepath.Join(dir, "demo.db")
		p.text = "a SQLite file of its own"
	case strings.HasPrefix(p.url, "postgres:"), strings.HasPrefix(p.url, "postgresql:"):
		p.opts.Schema, p.text = name, "PostgreSQL, schema "+name
	default:
		p.opts.Prefix, p.text = name+"_", "SQLite, tables "+name+"_*"
	}
	if err := open.Migrate(ctx, p.url, p.opts); err != nil {
		return nil, err
	}
	var err error
	p.db, err = open.Database(ctx, p.url, p.opts)
	return p, err
}

func randomName() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// env is how a worker process finds the place. The URL may hold a password, which
// others could read in its arguments.
func (p *demoPlace) env() []string {
	return []string{"DIBS_DB=" + p.url, "DIBS_SCHEMA=" + p.opts.Schema, "DIBS_PREFIX=" + p.opts.Prefix}
}

// describe says how to look at what was kept.
func (p *demoPlace) describe(a *app, dir string) {
	place := "--db " + redacted(p.url)
	switch {
	case p.opts.Schema != "":
		place += " --schema " + p.opts.Schema
	case p.opts.Prefix != "":
		place += " --prefix " + p.opts.Prefix
	}
	fmt.Fprintf(a.stderr, "kept: the workers' notes in %s, and the jobs: dibs %s ls --all\n", dir, place)
}

// remove closes the database and takes away everything that the demo made in it.
func (p *demoPlace) remove(ctx context.Context) error {
	switch {
	case p.opts.Schema != "":
		return errors.Join(p.db.Close(), p.dropSchema(ctx))
	case p.opts.Prefix != "":
		return errors.Join(p.dropTables(ctx), p.db.Close())
	}
	return p.db.Close()
}

func (p *demoPlace) dropSchema(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "drop schema "+pgx.Identifier{p.opts.Schema}.Sanitize()+" cascade")
	return err
}

// dropTables drops the tables whose names begin with the demo's prefix; their
// indexes and triggers go with them.
func (p *demoPlace) dropTables(ctx context.Context) error {
	db := p.db.(interface{ DB() *sql.DB }).DB()
	rows, err := db.QueryContext(ctx,
		"select name from sqlite_master where type = 'table' and substr(name, 1, length(?1)) = ?1", p.opts.Prefix)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := db.ExecContext(ctx, `drop table "`+name+`"`); err != nil {
			return err
		}
	}
	return nil
}

// redacted is a URL without its password.
func redacted(rawURL string) string {
	if u, err := url.Parse(rawURL); err == nil {
		return u.Redacted()
	}
	return rawURL
}
