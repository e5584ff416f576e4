package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// ownTables sets up commands with tables of their own: their help names the default of --db,
// and leaves out --schema and --prefix.
func (a *app) ownTables(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&a.DBFlag, "db", "`URL` of the database: sqlite:PATH or postgres://…; default: SQLite in a\ntemporary folder")
	f.StringVar(&a.Schema, "schema", a.Schema, "")
	f.StringVar(&a.Prefix, "prefix", a.Prefix, "")
	f.Lookup("schema").Hidden, f.Lookup("prefix").Hidden = true, true
	cmd.Annotations = map[string]string{cmdline.OwnPlace: ""}
}

// place holds the jobs of the demo or the torture, in tables that no other program uses.
type place struct {
	db   admin.Database
	url  open.URL
	opts open.Options
	text string // for example "a SQLite file of its own"
}

// newPlace creates a SQLite file in dir or, with the URL of a database, a schema or prefix
// there with a new name.
func newPlace(ctx context.Context, what string, url open.URL, dir string) (_ *place, err error) {
	p := &place{url: url, text: "a SQLite file of its own"}
	if url == "" {
		p.url = open.URL("sqlite:" + filepath.Join(dir, what+".db"))
	} else if p.opts, p.text, err = open.Named(url, "dibs_"+what+"_"+randomName()); err != nil {
		return nil, err
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

// env returns the environment by which a process finds the place. The URL is not in its
// arguments, since other users could read a password there.
func (p *place) env(url open.URL) []string {
	return []string{"DIBS_DB=" + url.Reveal(), "DIBS_SCHEMA=" + p.opts.Schema, "DIBS_PREFIX=" + p.opts.Prefix}
}

// table returns the name of another table in the place.
func (p *place) table(name string) string {
	if p.opts.Schema != "" {
		return p.opts.Schema + "." + name
	}
	return p.opts.Prefix + name
}

// flags returns the flags with which dibs opens the place.
func (p *place) flags() string {
	flags := "--db " + words.ShellWord(p.url.String())
	switch {
	case p.opts.Schema != "":
		flags += " --schema " + p.opts.Schema
	case p.opts.Prefix != "":
		flags += " --prefix " + p.opts.Prefix
	}
	return flags
}

// remove closes the database and removes everything that was created in it. It reports
// whether a SQLite file is then empty.
func (p *place) remove(ctx context.Context) (empty bool, err error) {
	if err := p.db.Close(); err != nil || p.opts.Schema == "" && p.opts.Prefix == "" {
		return false, err
	}
	return open.Remove(ctx, p.url, p.opts)
}
