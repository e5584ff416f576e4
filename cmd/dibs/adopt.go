package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

func newAdoptCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Work on a table that is already there",
		Long: `Work on a table that is already there: a mapping, a YAML file, says what its columns
mean. These commands make such a file, check it, and show what it does. They change nothing
in the database: what they try is rolled back. Then work with it: 'dibs work --table FILE'
('ls', 'show', 'stats', 'top', 'doctor', 'claim', 'extend' and 'finish' take --table, too).`,
		Example: `  dibs adopt init orders > orders.yaml
  dibs adopt check orders.yaml
  dibs adopt try orders.yaml
  dibs work --table orders.yaml -- ./ship.sh`,
		Args: cobra.NoArgs, // a misspelt command is an error
		RunE: asksForVerb,
	}
	cmd.AddCommand(newAdoptInitCmd(a), newAdoptCheckCmd(a), newAdoptSQLCmd(a), newAdoptTryCmd(a))
	for _, sub := range cmd.Commands() {
		sub.Flags().SortFlags = false
	}
	return cmd
}

func newAdoptInitCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init TABLE",
		Short: "Propose a mapping for a table",
		Long: `Write a mapping for a table to stdout, as YAML with the reasons as comments. It goes by
the names and types of columns, by indexes, and by what some thousand rows hold, so it can
be wrong: read it, above all what is marked NOT SURE.`,
		Example: `  dibs adopt init orders > orders.yaml
  dibs adopt init shop.orders --json | jq '.reasons[] | select(.unsure)'`,
		Args: asking("table", "orders", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSQL(cmd.Context(), func(db *sql.DB) error {
				m, reasons, err := advice.Propose(cmd.Context(), db, args[0])
				if err != nil {
					return err
				}
				text, err := advice.YAML(m, reasons)
				if err != nil {
					return err
				}
				if a.json {
					return a.writeJSON(struct {
						Mapping string          `json:"mapping"`
						Reasons []advice.Reason `json:"reasons"`
					}{text, reasons})
				}
				_, err = fmt.Fprint(a.stdout, text)
				return err
			})
		},
		ValidArgsFunction: a.completeTables,
	}
}

func newAdoptCheckCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check mappings against their tables",
		Long: `Check mappings against the catalogue and the data of their tables: whether they fit, how
safe claims are, what a claim costs and which index would help, rows that nobody would ever
take, values that look wrong. Give all the mappings of a table together: then it looks for
rows that two of them would do. Exit code 1 if there is an error; warnings and notes are none.

It tries some claims and each outcome, and rolls them back; for that moment other workers pass
over the rows.`,
		Example: `  dibs adopt check orders.yaml
  dibs adopt check mails.yaml invoices.yaml --json | jq 'select(.severity == "error")'`,
		Args: asking("mapping", "orders.yaml", 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			mappings, err := readMappings(args)
			if err != nil {
				return err
			}
			return a.withSQL(cmd.Context(), func(db *sql.DB) error {
				found, err := advice.Check(cmd.Context(), db, mappings...)
				if err != nil {
					return err
				}
				return a.writeFindings(found)
			})
		},
	}
}

func (a *app) writeFindings(found []advice.Finding) error {
	bad := false
	for _, f := range found {
		bad = bad || f.Severity == advice.SeverityError
		if a.json {
			if err := a.writeJSON(f); err != nil {
				return err
			}
			continue
		}
		color := map[advice.Severity]func(string) string{
			advice.SeverityError:   func(s string) string { return a.paint(red, s) },
			advice.SeverityWarning: func(s string) string { return a.paint(yellow, s) },
			advice.SeverityNote:    func(s string) string { return a.paint(faint, s) },
		}[f.Severity]
		a.say("%s %s, %s: %s", color(string(f.Severity)), printable(f.Queue), printable(f.Field), printable(f.Text))
		if f.Advice != "" {
			a.say("        %s", printable(f.Advice))
		}
	}
	if bad {
		return &codeError{code: exitFailure}
	}
	return nil
}

func newAdoptSQLCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sql FILE",
		Short: "Print the SQL that a mapping makes",
		Long: `Print every statement that dibs runs on the table of a mapping, the index that it advises,
and what a claim locks; for that, one claim is tried and rolled back. With --json: an object
with the text as "sql".`,
		Example: `  dibs adopt sql orders.yaml | less`,
		Args:    asking("mapping", "orders.yaml", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMapping(cmd.Context(), args[0], func(db *sql.DB, m mapping.Mapping) error {
				text, err := advice.SQL(cmd.Context(), db, m, 10)
				if err != nil {
					return err
				}
				if a.json {
					return a.writeJSON(map[string]string{"sql": text})
				}
				_, err = fmt.Fprint(a.stdout, text)
				return err
			})
		},
	}
}

func newAdoptTryCmd(a *app) *cobra.Command {
	n := 1
	cmd := &cobra.Command{
		Use:   "try FILE [flags]",
		Short: "Claim once and roll back",
		Long: `Claim up to -n rows of a mapping's table as a worker would, write what a handler would get,
and roll back. With --json each row is one line, as 'dibs claim' writes it, but its token is
worth nothing.`,
		Example: `  dibs adopt try orders.yaml -n 3
  dibs adopt try orders.yaml --json | jq .payload`,
		Args: asking("mapping", "orders.yaml", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > dibs.MaxBatch {
				return &dibs.InvalidError{Field: "-n", Reason: fmt.Sprintf("must be 1 to %d, got %d", dibs.MaxBatch, n)}
			}
			return a.withMapping(cmd.Context(), args[0], func(db *sql.DB, m mapping.Mapping) error {
				jobs, err := advice.Try(cmd.Context(), db, m, n)
				if err != nil {
					return err
				}
				return a.writeTried(jobs)
			})
		},
	}
	cmd.Flags().IntVarP(&n, "n", "n", n, "how many rows at most, `1-10000`")
	return cmd
}

func (a *app) writeTried(jobs []*dibs.RawJob) error {
	if a.json {
		for _, j := range jobs {
			if err := a.writeJSON(j); err != nil {
				return err
			}
		}
		return nil
	}
	if len(jobs) == 0 {
		a.say("No row is available now: a claim gets none.")
		return nil
	}
	t := a.tableOf("ID", "KIND", "GROUP", "ATTEMPT", "PAYLOAD")
	for _, j := range jobs {
		t.AppendRow([]any{a.cell(keyOf(j), 30), a.cell(j.Kind, 20), a.cell(j.Group, 20), j.Attempt, a.cell(string(j.Payload), 200)})
	}
	t.Render()
	a.say("\nAll was rolled back: nothing has changed.")
	return nil
}

func readMapping(file string) (mapping.Mapping, error) {
	m, err := mapping.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		err = &hintError{err, "make one: dibs adopt init TABLE > " + shellWord(open.Redacted(file))}
	}
	if err != nil {
		err = &codeError{exitUsage, err}
	}
	return m, err
}

func readMappings(files []string) ([]mapping.Mapping, error) {
	all := make([]mapping.Mapping, len(files))
	for i, file := range files {
		m, err := readMapping(file)
		if err != nil {
			return nil, err
		}
		all[i] = m
	}
	return all, nil
}

// withMapping runs f with a mapping. Errors in the mapping name its file.
func (a *app) withMapping(ctx context.Context, file string, f func(*sql.DB, mapping.Mapping) error) error {
	mappings, err := readMappings([]string{file})
	if err != nil {
		return err
	}
	return a.withSQL(ctx, func(db *sql.DB) error {
		err := f(db, mappings[0])
		if errors.Is(err, dibs.ErrInvalid) {
			err = &hintError{fmt.Errorf("%s: %w", file, err), "correct the file; 'dibs adopt check' tells all that is wrong with it"}
		}
		return err
	})
}

// withSQL runs f on a table's database.
func (a *app) withSQL(ctx context.Context, f func(*sql.DB) error) error {
	db, err := a.sqlDB(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// completeTables offers the names of tables to the shell.
func (a *app) completeTables(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTakes)
		defer cancel()
		err := a.withSQL(ctx, func(db *sql.DB) (err error) {
			names, err = advice.Tables(ctx, db, begun)
			return err
		})
		if err != nil {
			names = nil // an error must not disturb the prompt
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
