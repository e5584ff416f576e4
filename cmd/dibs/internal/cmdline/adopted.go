package cmdline

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
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Adoptable gives a command the flag --table, to work on an adopted table.
func (a *App) Adoptable(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.Table, "table", "", "work on an adopted table: `FILE` with its mapping; default $DIBS_TABLE")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		switch changed := cmd.Flags().Changed; {
		case !changed("table"):
			a.Table = os.Getenv("DIBS_TABLE")
		case a.Table == "": // perhaps from an unset variable: to ignore the flag would select another table
			return Usagef(cmd, "--table is empty; give it a value or leave it out")
		case changed("schema") || changed("prefix"):
			return Usagef(cmd, "--schema and --prefix are for the tables of dibs; the mapping names its table as SCHEMA.NAME")
		}
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			args = args[:dash]
		}
		for _, arg := range args {
			if info, err := os.Stat(arg); a.Table == "" && likeMapping(arg) && err == nil && info.Mode().IsRegular() {
				return Usagef(cmd, "%s is a file; did you mean --table %s?", arg, arg)
			}
		}
		return nil
	}
	return cmd
}

// OwnJobsOnly makes a command that changes jobs by id, or many jobs, fail if DIBS_TABLE is
// set: other commands then show an adopted table, in which the same ids are other jobs.
func OwnJobsOnly(cmd *cobra.Command) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if os.Getenv("DIBS_TABLE") == "" {
			return nil
		}
		what := fmt.Errorf("$DIBS_TABLE is set, and 'dibs %s' does not work on an adopted table: %s", cmd.Name(), adoptedAlternative[cmd.Name()])
		return &UsageError{&HintError{Err: what, Next: "unset DIBS_TABLE to work on dibs' own jobs"}, cmd.CommandPath()}
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
	"prune": "delete rows with SQL", "flow": "its rows come after no others",
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
		return &HintError{Err: err, Next: "the queue is an argument: dibs " + cmd.Use}
	}
	if flag.GetSpecifiedName() != "table" {
		return likeFlag(cmd, flag.GetSpecifiedName(), err)
	}
	what := fmt.Errorf("there is no --table: 'dibs %s' does not work on an adopted table", cmd.Name())
	if do := adoptedAlternative[cmd.Name()]; do != "" {
		what = fmt.Errorf("%w: %s", what, do)
	}
	return &HintError{Err: what, Next: "docs/adopt.md tells what each way to adopt a table can do"}
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

// OpenTable opens the adopted table.
func (a *App) OpenTable(ctx context.Context) (JobTable, error) {
	m, err := ReadMapping(a.Table)
	if err != nil {
		return nil, err
	}
	db, err := a.SQLDB(ctx)
	if err != nil {
		return nil, err
	}
	s, err := adopt.Open(ctx, db, m)
	if err != nil {
		if errors.Is(err, dibs.ErrInvalid) { // the error names a field of the file
			err = fmt.Errorf("%s: %w", a.Table, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	a.Adopted = &AdoptedTable{s, m, db}
	return a.Adopted, nil
}

// AdoptedTable is an adopted table with its mapping and its database, which Close closes too.
type AdoptedTable struct {
	*adopt.Store
	Mapping mapping.Mapping
	db      *sql.DB
}

// Knows reports whether the table has the values of a column of a list. A nil table stands
// for dibs' own, which has all.
func (t *AdoptedTable) Knows(column string) bool {
	if t == nil {
		return true
	}
	c, side := t.Mapping.Claim, t.Mapping.SideTable
	switch strings.TrimPrefix(column, "#") {
	case "QUEUE", "PRIORITY", "BLOCKED", "COMPLETED", "CANCELLED", "DIED":
		return false
	case "OLDEST":
		return t.Known().Oldest
	case "WAIT":
		return t.Known().Wait
	case "RUN":
		return t.Known().Run
	case "JOBS/S":
		return t.Known().Rate
	case "KIND":
		return t.Mapping.Kind != ""
	case "ATTEMPT":
		return side || c.Attempts != ""
	case "LATER":
		return side || t.Mapping.NotBefore != ""
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

func (t *AdoptedTable) Known() adopt.Known {
	if t.Store == nil {
		return adopt.Known{}
	}
	return t.Store.Known()
}

// Rate formats the jobs completed per second, which an adopted table may not know.
func (a *App) Rate(s admin.QueueStats) string {
	return term.Dash(a.Adopted == nil || s.Window > 0, fmt.Sprintf("%.1f", s.Throughput))
}

// KnownCells keeps the first cell of a row and those of columns that the table knows.
func KnownCells[T any](t *AdoptedTable, columns []string, cells []T) []T {
	var kept []T
	for i, c := range cells {
		if i == 0 || t.Knows(columns[i]) {
			kept = append(kept, c)
		}
	}
	return kept
}

// SQLDB opens the database with database/sql.
func (a *App) SQLDB(ctx context.Context) (*sql.DB, error) {
	return open.SQL(ctx, a.URL(), open.Options{Program: a.ApplicationName})
}

// QueueOf returns the queue of a command: the named one, or else that of the adopted table
// or the default one. An adopted table has one queue.
func (a *App) QueueOf(ctx context.Context, db JobTable, named string) (string, error) {
	t, ok := db.(*AdoptedTable)
	switch {
	case !ok && named == "":
		return dibs.DefaultQueue, nil
	case !ok || named == t.Queue():
		return named, nil
	case named == "":
		return t.Queue(), nil
	}
	return "", CheckQueue(ctx, db, named)
}

// IDOf returns the id of the job that an argument or a line of JSON names.
func IDOf(db JobTable, name string) (int64, error) {
	if t, ok := db.(*AdoptedTable); ok {
		return t.ID(name)
	}
	return ParseID(name)
}

// rowID describes the id columns of the adopted table.
func (a *App) rowID() string {
	return "the row's own id (" + strings.Join(a.Adopted.Mapping.ID, ", ") + ")"
}

// RowKeys maps the numbers of rows to the rows' own ids, for messages and JSON.
type RowKeys map[int64]string

func (k RowKeys) Add(id int64, name string, of []int64) {
	if name != strconv.FormatInt(id, 10) && slices.Contains(of, id) {
		k[id] = name
	}
}

// Explain names the first lost row by its own id.
func (k RowKeys) Explain(lost *dibs.FinishError) error {
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
	return fmt.Sprintf("%s lost (first: row %q): the lease had ended, or another program has changed or finished the row; nothing was written for it", words.Plural(len(e.Lost), "lease"), e.first)
}

// TableEnv makes dibs work on the same adopted table if a job's program calls it.
func (a *App) TableEnv() []string {
	path, err := filepath.Abs(a.Table)
	if a.Table == "" || err != nil {
		return nil
	}
	return []string{"DIBS_TABLE=" + path}
}

func ReadMapping(file string) (mapping.Mapping, error) {
	m, err := mapping.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		err = &HintError{err, "make one: dibs adopt init TABLE > " + words.ShellWord(open.Redacted(file))}
	}
	if err != nil {
		err = &CodeError{ExitUsage, err}
	}
	return m, err
}
