package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// adoptable gives a command the flag --table, to work on an adopted table.
func (a *app) adoptable(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.table, "table", "", "work on an adopted table: `FILE` with its mapping; default $DIBS_TABLE")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		switch changed := cmd.Flags().Changed; {
		case !changed("table"):
			a.table = os.Getenv("DIBS_TABLE")
		case a.table == "": // perhaps from an unset variable: to ignore the flag would select another table
			return usagef(cmd, "--table is empty; give it a value or leave it out")
		case changed("schema") || changed("prefix"):
			return usagef(cmd, "--schema and --prefix are for the tables of dibs; the mapping names its table as SCHEMA.NAME")
		}
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			args = args[:dash]
		}
		for _, arg := range args {
			if info, err := os.Stat(arg); a.table == "" && likeMapping(arg) && err == nil && info.Mode().IsRegular() {
				return usagef(cmd, "%s is a file; did you mean --table %s?", arg, arg)
			}
		}
		return nil
	}
	return cmd
}

// ownJobsOnly makes a command that changes jobs by id, or many jobs, fail if DIBS_TABLE is
// set: other commands then show an adopted table, in which the same ids are other jobs.
func ownJobsOnly(cmd *cobra.Command) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if os.Getenv("DIBS_TABLE") == "" {
			return nil
		}
		what := fmt.Errorf("$DIBS_TABLE is set, and 'dibs %s' does not work on an adopted table: %s", cmd.Name(), adoptedAlternative[cmd.Name()])
		return &usageError{&hintError{err: what, next: "unset DIBS_TABLE to work on dibs' own jobs"}, cmd.CommandPath()}
	}
	return cmd
}

// likeMapping reports whether an argument for a queue looks like the file of a mapping.
func likeMapping(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// adoptedAlternative says for each command how to change rows of an adopted table instead.
var adoptedAlternative = map[string]string{
	"enqueue": "insert rows with SQL", "edit": "change rows with SQL", "cancel": "end rows with SQL",
	"prune": "delete rows with SQL",
	"pause": "stop its workers", "resume": "start its workers", "queue": "its settings are in the mapping",
	"check": "'dibs adopt check' looks at the mapping",
}

// flagError explains why a command does not have --table.
func flagError(cmd *cobra.Command, err error) error {
	var number *strconv.NumError
	var value *pflag.InvalidValueError
	if errors.As(err, &number) && errors.As(err, &value) {
		what := "is no whole number"
		switch {
		case errors.Is(number, strconv.ErrRange):
			what = "is too large or too small"
		case value.GetFlag().Value.Type() == "bool":
			what = "is neither true nor false"
		}
		_, usage := pflag.UnquoteUsage(value.GetFlag())
		return fmt.Errorf("--%s: %.40q %s (%s)", value.GetFlag().Name, value.GetValue(), what, usage)
	}
	var flag interface{ GetSpecifiedName() string }
	if !errors.As(err, &flag) || cmd.Flags().Lookup(flag.GetSpecifiedName()) != nil {
		return err
	}
	if name := flag.GetSpecifiedName(); (name == "queue" || name == "q") && strings.Contains(cmd.Use, "QUEUE") {
		return &hintError{err: err, next: "the queue is an argument: dibs " + cmd.Use}
	}
	if flag.GetSpecifiedName() != "table" {
		return likeFlag(cmd, flag.GetSpecifiedName(), err)
	}
	what := fmt.Errorf("there is no --table: 'dibs %s' does not work on an adopted table", cmd.Name())
	if do := adoptedAlternative[cmd.Name()]; do != "" {
		what = fmt.Errorf("%w: %s", what, do)
	}
	return &hintError{err: what, next: "docs/adopt.md tells what each way to adopt a table can do"}
}

// likeFlag adds the names of flags that are like an unknown one, by cobra's rule for names of commands.
func likeFlag(cmd *cobra.Command, name string, err error) error {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if like := names.SuggestionsFor(name); len(name) > 1 && len(like) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(like, " or --"))
	}
	return err
}

// openTable opens the adopted table.
func (a *app) openTable(ctx context.Context) (jobTable, error) {
	m, err := readMapping(a.table)
	if err != nil {
		return nil, err
	}
	db, err := a.sqlDB(ctx)
	if err != nil {
		return nil, err
	}
	s, err := adopt.Open(ctx, db, m)
	if err != nil {
		if errors.Is(err, dibs.ErrInvalid) { // the error names a field of the file
			err = fmt.Errorf("%s: %w", a.table, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	a.adopted = &adoptedTable{s, m, db}
	return a.adopted, nil
}

// adoptedTable is an adopted table with its mapping and its database, which Close closes too.
type adoptedTable struct {
	*adopt.Store
	m  mapping.Mapping
	db *sql.DB
}

// knows reports whether the table has the values of a column of a list. A nil table stands
// for dibs' own, which has all.
func (t *adoptedTable) knows(column string) bool {
	if t == nil {
		return true
	}
	c, side := t.m.Claim, t.m.SideTable
	switch strings.TrimPrefix(column, "#") {
	case "QUEUE", "PRIORITY", "BLOCKED", "COMPLETED", "CANCELLED", "DIED":
		return false
	case "OLDEST":
		return t.known().Oldest
	case "WAIT":
		return t.known().Wait
	case "RUN":
		return t.known().Run
	case "JOBS/S":
		return t.known().Rate
	case "KIND":
		return t.m.Kind != ""
	case "ATTEMPT":
		return side || c.Attempts != ""
	case "LATER":
		return side || t.m.NotBefore != ""
	case "WORKER":
		return side || c.LockedBy != ""
	case "FOR":
		return side || c.StartedAt != ""
	case "LEASE":
		return side || c.StartedAt != "" || c.Timeout != ""
	case "DEAD":
		return side
	}
	return true
}

func (t *adoptedTable) known() adopt.Known {
	if t.Store == nil {
		return adopt.Known{}
	}
	return t.Store.Known()
}

// rate formats the jobs completed per second, which an adopted table may not know.
func (a *app) rate(s dibs.QueueStats) string {
	return dash(a.adopted == nil || s.Window > 0, fmt.Sprintf("%.1f", s.Throughput))
}

// knownCells keeps the first cell of a row and those of columns that the table knows.
func knownCells[T any](t *adoptedTable, columns []string, cells []T) []T {
	var kept []T
	for i, c := range cells {
		if i == 0 || t.knows(columns[i]) {
			kept = append(kept, c)
		}
	}
	return kept
}

// sqlDB opens the database with database/sql.
func (a *app) sqlDB(ctx context.Context) (*sql.DB, error) {
	return open.SQL(ctx, a.dbURL(), open.Options{Program: a.applicationName})
}

// queueOf returns the queue of a command: the named one, or else that of the adopted table
// or the default one. An adopted table has one queue.
func (a *app) queueOf(ctx context.Context, db jobTable, named string) (string, error) {
	t, ok := db.(*adoptedTable)
	switch {
	case !ok && named == "":
		return dibs.DefaultQueue, nil
	case !ok || named == t.Queue():
		return named, nil
	case named == "":
		return t.Queue(), nil
	}
	return "", checkQueue(ctx, db, named)
}

// idOf returns the id of the job that an argument or a line of JSON names.
func idOf(db jobTable, name string) (int64, error) {
	if t, ok := db.(*adoptedTable); ok {
		return t.ID(name)
	}
	return parseID(name)
}

// rowID describes the id columns of the adopted table.
func (a *app) rowID() string {
	return "the row's own id (" + strings.Join(a.adopted.m.ID, ", ") + ")"
}

// rowKeys maps the numbers of rows to the rows' own ids, for messages and JSON.
type rowKeys map[int64]string

func (k rowKeys) add(id int64, name string, of []int64) {
	if name != strconv.FormatInt(id, 10) && slices.Contains(of, id) {
		k[id] = name
	}
}

// explain names the first lost row by its own id.
func (k rowKeys) explain(lost *dibs.FinishError) error {
	name, ok := k[lost.Lost[0]]
	if !ok {
		return lost
	}
	return &lostRows{lost, name}
}

type lostRows struct {
	*dibs.FinishError
	first string
}

func (e *lostRows) Error() string {
	return fmt.Sprintf("%s lost (first: row %q): the lease had ended, or another program has changed or finished the row; nothing was written for it", plural(len(e.Lost), "lease"), e.first)
}

// keyOf returns the id of a job's row, or of the job.
func keyOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatInt(j.ID, 10)
}

// tableEnv makes dibs work on the same adopted table if a job's program calls it.
func (a *app) tableEnv() []string {
	path, err := filepath.Abs(a.table)
	if a.table == "" || err != nil {
		return nil
	}
	return []string{"DIBS_TABLE=" + path}
}
