package main

import (
	"io"

	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

func newMigrateCmd(a *app) *cobra.Command {
	var print bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the schema in the database",
		Long: `Make the schema, or bring it up to the version that this program needs. Nothing is
done if it is there already, and several processes may do it at the same time.

On SQLite 'enqueue' and 'work' do this by themselves where there is no file yet or one
without tables, and 'claim' where there is no file; in a file that has tables of another
program, only this command makes those of dibs. On PostgreSQL it needs a user who may create
a schema; all other verbs need only the right to read and write its tables. --print writes
the SQL for somebody else to run, and does not connect.`,
		Example: `  dibs migrate --db postgres://app@localhost/shop
  dibs migrate --db postgres:// --print > dibs.sql`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if print {
				sql, err := open.Migrations(a.dbURL(), a.options())
				if err != nil {
					return err
				}
				_, err = io.WriteString(a.stdout, sql)
				return err
			}
			if err := open.Migrate(cmd.Context(), a.dbURL(), a.options()); err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(struct {
					Migrated bool `json:"migrated"`
				}{true})
			}
			a.say("the schema is up to date")
			return nil
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "write the SQL to stdout instead of running it")
	return cmd
}
