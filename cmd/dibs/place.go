package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

// ownPlace marks the commands for which $DIBS_DB means nothing.
const ownPlace = "own place"

// ownTables is for commands whose tables nobody else uses: it says what --db is without a
// value then, and leaves --schema and --prefix out of the help.
func (a *app) ownTables(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&a.dbFlag, "db", "`URL` of the database: sqlite:PATH or postgres://…; default: SQLite in a\ntemporary folder")
	f.StringVar(&a.schema, "schema", a.schema, "")
	f.StringVar(&a.prefix, "prefix", a.prefix, "")
	f.Lookup("schema").Hidden, f.Lookup("prefix").Hidden = true, true
	cmd.Annotations = map[string]string{ownPlace: ""}
}

// place is where the demo and the torture keep their jobs: tables that nobody else
// uses.
type place struct {
	db   dibs.Database
	url  open.URL
	opts open.Options
	text string // such as "a SQLite file of its own"
}

// newPlace makes a SQLite file in dir or, with the URL of a database, a schema or
// prefix there with a name that is not yet taken.
func newPlace(ctx context.Context, what string, url open.URL, dir string) (*place, error) {
	p := &place{url: url}
	if url == "" {
		p.url = open.URL("sqlite:" + filepath.Join(dir, what+".db"))
	}
	_, server, err := open.Place(p.url)
	if err != nil {
		return nil, err
	}
	name := "dibs_" + what + "_" + randomName()
	switch {
	case url == "":
		p.text = "a SQLite file of its own"
	case server != "":
		p.opts.Schema, p.text = name, "PostgreSQL, schema "+name
	default:
		p.opts.Prefix, p.text = name+"_", "SQLite, tables "+name+"_*"
	}
	if err := open.Migrate(ctx, p.url, p.opts); err != nil {
		return nil, err
	}
	p.db, err = open.Database(ctx, p.url, p.opts)
	return p, err
}

func randomName() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// env is how a process finds the place, by the given URL of its database. The URL may
// hold a password, which others could read in its arguments.
func (p *place) env(url open.URL) []string {
	return []string{"DIBS_DB=" + url.Reveal(), "DIBS_SCHEMA=" + p.opts.Schema, "DIBS_PREFIX=" + p.opts.Prefix}
}

// table is the name of another table in the place.
func (p *place) table(name string) string {
	if p.opts.Schema != "" {
		return p.opts.Schema + "." + name
	}
	return p.opts.Prefix + name
}

// flags are those with which to look at what was kept.
func (p *place) flags() string {
	flags := "--db " + shellWord(p.url.String())
	switch {
	case p.opts.Schema != "":
		flags += " --schema " + p.opts.Schema
	case p.opts.Prefix != "":
		flags += " --prefix " + p.opts.Prefix
	}
	return flags
}

// remove closes the database and takes away everything that was made in it. It reports
// whether a file has nothing else in it.
func (p *place) remove(ctx context.Context) (empty bool, err error) {
	if err := p.db.Close(); err != nil || p.opts.Schema == "" && p.opts.Prefix == "" {
		return false, err
	}
	return open.Remove(ctx, p.url, p.opts)
}
