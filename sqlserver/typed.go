package sqlserver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs"
)

// conn runs the files of sql/. A file first declares a variable for each parameter that it uses. So the plan does not
// depend on the first values, and conn gives the driver each argument in a type that the variable takes: a nil that is not
// typed cannot become a null of bytes.
type conn struct {
	dibs.SQLTx
	own bool // the store's own connection: its statements wait for locks for a limited time
}

const (
	// alone begins each batch. An error ends the batch and rolls the transaction back: the driver loses its place in a batch that
	// goes on after an error. Only a statement after "set nocount off" tells how many rows it has changed.
	alone = "set nocount, xact_abort on;\n"
	// patient begins those on the store's own connections: a statement waits for a lock for so many milliseconds.
	patient = "set lock_timeout 5000;\n"
)

// statement is a file of sql/ as the driver takes it.
type statement struct {
	text  string
	types []string // the types of the parameters, by their numbers; empty: the statement does not use the parameter
}

// unused is a parameter of statements that have none. The driver sends a text without parameters as a batch of the session, in
// which what alone sets would stay on: the caller's own statements would no longer tell how many rows they have changed.
const unused = "unused"

var (
	parameter = regexp.MustCompile(`\?([0-9]+)`)
	declared  = regexp.MustCompile(`(?m)^  @\w+ ([a-z]+)(?:\([^)]*\))? = \?([0-9]+)[,;]$`)
	parsed    sync.Map // statements by the texts of their files
)

func parse(text string) *statement {
	if s, ok := parsed.Load(text); ok {
		return s.(*statement)
	}
	s := &statement{text: parameter.ReplaceAllString(text, "@p$1")}
	for _, m := range declared.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[2]) // digits
		for len(s.types) < n {
			s.types = append(s.types, "")
		}
		s.types[n-1] = m[1]
	}
	parsed.Store(text, s)
	return s
}

// args are the arguments as the driver takes them, named as in the text. Those that the statement does not use are left out.
func (s *statement) args(args []any) []any {
	all := make([]any, 0, len(s.types))
	for i, kind := range s.types {
		if kind != "" {
			all = append(all, sql.Named("p"+strconv.Itoa(i+1), argument(kind, args[i])))
		}
	}
	if len(all) == 0 {
		all = append(all, sql.Named(unused, 0))
	}
	return all
}

// argument gives a value the type of a variable. A text has no length, so that texts of all lengths share a plan.
func argument(kind string, v any) any {
	text := reflect.ValueOf(v)
	switch kind {
	case "varbinary", "binary":
		if v == nil {
			return []byte(nil)
		}
		if text.Kind() == reflect.String {
			return []byte(text.String())
		}
	case "nvarchar", "varchar":
		if text.Kind() == reflect.String {
			return mssql.NVarCharMax(text.String())
		}
	}
	return v
}

// savepoints are what internal/rowstore says, and what the server says. It does not release savepoints.
var savepoints = map[string]string{
	"savepoint dibs_call":             "save transaction dibs_call",
	"rollback to savepoint dibs_call": "rollback transaction dibs_call",
	"release savepoint dibs_call":     "",
}

func (c conn) batch(text string) string {
	if c.own {
		return alone + patient + text
	}
	return alone + text
}

func (c conn) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if point, ok := savepoints[text]; ok {
		if point == "" {
			return driver.RowsAffected(0), nil
		}
		return c.SQLTx.ExecContext(ctx, point)
	}
	s := parse(text)
	return c.SQLTx.ExecContext(ctx, c.batch(s.text), s.args(args)...)
}

func (c conn) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s := parse(text)
	return c.SQLTx.QueryContext(ctx, c.batch(s.text), s.args(args)...)
}

// quoted writes a name in brackets.
func quoted(name string) string { return "[" + strings.ReplaceAll(name, "]", "]]") + "]" }
