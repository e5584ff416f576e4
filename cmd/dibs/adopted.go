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
)

// adoptable gives a command --table, by which it works on a table that is already there.
func (a *app) adoptable(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.table, "table", "", "work on an adopted table: `FILE` with its mapping; default $DIBS_TABLE")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		switch changed := cmd.Flags().Changed; {
		case !changed("table"):
			a.table = os.Getenv("DIBS_TABLE")
		case a.table == "": // such as a variable that is not set: without the flag, another table would be worked on
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

// ownJobs has a command that changes jobs by their ids, or ends many, do nothing while
// DIBS_TABLE has others show and claim the rows of an adopted table: the same ids are other work there.
func ownJobs(cmd *cobra.Command) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if os.Getenv("DIBS_TABLE") == "" {
			return nil
		}
		what := fmt.Errorf("$DIBS_TABLE is set, and 'dibs %s' does not work on an adopted table: %s", cmd.Name(), instead[cmd.Name()])
		return &usageError{&hintError{err: what, next: "unset DIBS_TABLE to work on dibs' own jobs"}, cmd.CommandPath()}
	}
	return cmd
}

// likeMapping reports whether what was given for a queue looks like the file of a mapping.
func likeMapping(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// instead is what to do where a command would change rows of an adopted table.
var instead = map[string]string{
	"enqueue": "insert rows with SQL", "edit": "change rows with SQL", "cancel": "end rows with SQL",
	"prune": "delete rows with SQL",
	"pause": "stop its workers", "resume": "start its workers", "queue": "its settings are in the mapping",
	"check": "'dibs adopt check' looks at the mapping",
}

// flagError explains why a command does not have --table.
func flagError(cmd *cobra.Command, err error) error {
	var flag interface{ GetSpecifiedName() string }
	if !errors.As(err, &flag) || flag.GetSpecifiedName() != "table" || cmd.Flags().Lookup("table") != nil {
		return err
	}
	what := fmt.Errorf("there is no --table: 'dibs %s' does not work on an adopted table", cmd.Name())
	if do := instead[cmd.Name()]; do != "" {
		what = fmt.Errorf("%w: %s", what, do)
	}
	return &hintError{err: what, next: "docs/adopt.md tells what each way to adopt a table can do"}
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
		if errors.Is(err, dibs.ErrInvalid) { // which names a field of the file
			err = fmt.Errorf("%s: %w", a.table, err)
		}
		return nil, errors.Join(err, db.Close())
	}
	a.adopted = &adoptedTable{s, m, db}
	return a.adopted, nil
}

// adoptedTable closes its database too.
type adoptedTable struct {
	*adopt.Store
	m  mapping.Mapping
	db *sql.DB
}

// tells reports whether a column of a list or a count can be filled in. No table at all
// is dibs' own, which tells everything.
func (t *adoptedTable) tells(column string) bool {
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

// rate writes how many jobs complete in a second. Of an adopted table it may not be known.
func (a *app) rate(s dibs.QueueStats) string {
	return dash(a.adopted == nil || s.Window > 0, fmt.Sprintf("%.1f", s.Throughput))
}

// told keeps, of a table's cells, the first and those of columns that can be filled in.
func told[T any](t *adoptedTable, columns []string, cells []T) []T {
	var kept []T
	for i, c := range cells {
		if i == 0 || t.tells(columns[i]) {
			kept = append(kept, c)
		}
	}
	return kept
}

// sqlDB opens the database with database/sql.
func (a *app) sqlDB(ctx context.Context) (*sql.DB, error) {
	return open.SQL(ctx, a.dbURL(), open.Options{Program: a.program})
}

// queueOf is the queue that a command works on: the named one, or else the table's or the
// default one. An adopted table has but one.
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

// idOf is the number of the job that a person, or a line of JSON, names.
func idOf(db jobTable, name string) (int64, error) {
	if t, ok := db.(*adoptedTable); ok {
		return t.ID(name)
	}
	return parseID(name)
}

// rowID says what tells the rows of the adopted table apart.
func (a *app) rowID() string {
	return "the row's own id (" + strings.Join(a.adopted.m.ID, ", ") + ")"
}

// rowKeys tells, for people and for JSON, which ids of rows numbers stand for.
type rowKeys map[int64]string

func (k rowKeys) add(id int64, name string, of []int64) {
	if name != strconv.FormatInt(id, 10) && slices.Contains(of, id) {
		k[id] = name
	}
}

// explain names the first lost row as its owners do.
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
	return fmt.Sprintf("%s lost (first: row %q): the lease had ended, or somebody else has changed or finished the row; nothing was written for it", plural(len(e.Lost), "lease"), e.first)
}

// keyOf is the id of the row that a job is.
func keyOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatInt(j.ID, 10)
}

// tableEnv lets a program that is run work on the same adopted table.
func (a *app) tableEnv() []string {
	path, err := filepath.Abs(a.table)
	if a.table == "" || err != nil {
		return nil
	}
	return []string{"DIBS_TABLE=" + path}
}
