package database

import (
	"cmp"
	"io"
	"strings"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

func newMigrateCmd(a *app) *cobra.Command {
	var print, noTransaction bool
	var since int
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the schema in the database",
		Long: `Make the schema, or bring it up to the version that this program needs. Nothing is
done if it is there already, and several processes may do it at the same time.

On SQLite 'enqueue' and 'work' do this by themselves where there is no file yet or one
without tables, and 'claim' where there is no file; in a file that has tables of another
program, only this command makes those of dibs. On PostgreSQL it needs a user who may create
a schema; all other verbs need only the right to read and write its tables. --print writes
the SQL for somebody else to run, and does not connect: --since leaves out what is there
already, --no-transaction the begin and commit, for a tool that has its own.`,
		Example: `  dibs migrate --db postgres://app@localhost/shop
  dibs migrate --db postgres:// --print > dibs.sql`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := a.Options()
			o.Since, o.NoTransaction = since, noTransaction
			if print {
				sql, err := open.Migrations(a.URL(), o)
				if err != nil {
					return err
				}
				_, err = io.WriteString(a.Stdout, sql)
				return err
			}
			if since != 0 || noTransaction {
				return cmdline.Usagef(cmd, "--since and --no-transaction are for --print")
			}
			var version int
			var names []string
			o.Migrated = func(v int, list []string) { version, names = v, list }
			if err := open.Migrate(cmd.Context(), a.URL(), o); err != nil {
				return err
			}
			return a.migrated(version, names)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "write the SQL to stdout instead of running it")
	cmd.Flags().IntVar(&since, "since", 0, "with --print: only the migrations after this `VERSION`")
	cmd.Flags().BoolVar(&noTransaction, "no-transaction", false, "with --print: without begin and commit")
	return cmd
}

// migrated prints a finished migration.
func (a *app) migrated(version int, names []string) error {
	if a.JSON {
		return a.WriteJSON(struct {
			Migrated bool     `json:"migrated"`
			Version  int      `json:"version"`
			Ran      []string `json:"ran"`
		}{true, version, append([]string{}, names...)})
	}
	where := "schema " + cmp.Or(a.Schema, "dibs")
	if path, _, err := open.Place(a.URL()); err == nil && path != "" {
		where = "schema in " + path
	} else if open.IsMariaDB(a.URL()) || open.IsSQLServer(a.URL()) {
		where = "schema of the tables " + cmp.Or(a.Prefix, "dibs_") + "*"
	}
	if len(names) == 0 {
		a.Say("the %s is up to date at version %d", where, version)
		return nil
	}
	a.Say("ran %s; the %s has version %d now", strings.Join(names, ", "), where, version)
	return nil
}
