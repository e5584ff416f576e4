package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
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
		RunE: cmdline.AsksForVerb,
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
		Args: cmdline.Asking("table", "orders", 1),
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
				if a.JSON {
					return a.WriteJSON(struct {
						Mapping string          `json:"mapping"`
						Reasons []advice.Reason `json:"reasons"`
					}{text, reasons})
				}
				_, err = fmt.Fprint(a.Stdout, text)
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
		Args: cmdline.Asking("mapping", "orders.yaml", 0),
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
		if a.JSON {
			if err := a.WriteJSON(f); err != nil {
				return err
			}
			continue
		}
		color := map[advice.Severity]func(string) string{
			advice.SeverityError:   func(s string) string { return a.Paint(term.Red, s) },
			advice.SeverityWarning: func(s string) string { return a.Paint(term.Yellow, s) },
			advice.SeverityNote:    func(s string) string { return a.Paint(term.Faint, s) },
		}[f.Severity]
		a.Say("%s %s, %s: %s", color(string(f.Severity)), words.Printable(f.Queue), words.Printable(f.Field), words.Printable(f.Text))
		if f.Advice != "" {
			a.Say("        %s", words.Printable(f.Advice))
		}
	}
	if bad {
		return &cmdline.CodeError{Code: cmdline.ExitFailure}
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
		Args:    cmdline.Asking("mapping", "orders.yaml", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMapping(cmd.Context(), args[0], func(db *sql.DB, m mapping.Mapping) error {
				text, err := advice.SQL(cmd.Context(), db, m, 10)
				if err != nil {
					return err
				}
				if a.JSON {
					return a.WriteJSON(map[string]string{"sql": text})
				}
				_, err = fmt.Fprint(a.Stdout, text)
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
		Args: cmdline.Asking("mapping", "orders.yaml", 1),
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
	if a.JSON {
		return term.WriteEach(&a.Terminal, jobs, func(j *dibs.RawJob) any { return j })
	}
	if len(jobs) == 0 {
		a.Say("No row is available now: a claim gets none.")
		return nil
	}
	t := a.TableOf("ID", "KIND", "GROUP", "ATTEMPT", "PAYLOAD")
	for _, j := range jobs {
		t.AppendRow([]any{a.Cell(term.KeyOf(j), 30), a.Cell(j.Kind, 20), a.Cell(j.Group, 20), j.Attempt, a.Cell(string(j.Payload), 200)})
	}
	t.Render()
	a.Say("\nAll was rolled back: nothing has changed.")
	return nil
}

func readMappings(files []string) ([]mapping.Mapping, error) {
	all := make([]mapping.Mapping, len(files))
	for i, file := range files {
		m, err := cmdline.ReadMapping(file)
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
			err = &cmdline.HintError{Err: fmt.Errorf("%s: %w", file, err), Next: "correct the file; 'dibs adopt check' tells all that is wrong with it"}
		}
		return err
	})
}

// withSQL runs f on a table's database.
func (a *app) withSQL(ctx context.Context, f func(*sql.DB) error) error {
	db, err := a.SQLDB(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// completeTables offers the names of tables to the shell.
func (a *app) completeTables(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return cmdline.Offer(cmd, func(ctx context.Context) (names []string, err error) {
		if len(args) > 0 {
			return nil, nil
		}
		err = a.withSQL(ctx, func(db *sql.DB) error {
			names, err = advice.Tables(ctx, db, begun)
			return err
		})
		return names, err
	})
}
