package adopted

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// Dialect is what the databases write differently in the parts that statements are
// made of. The statements themselves are files: in sql those that are the same for all, in a folder below the others.
type Dialect struct {
	forms
	database
}

// database is what takes code of its own for each database.
type database interface {
	// lookUp reads the catalogue. It returns nil if there is no such table.
	lookUp(ctx context.Context, q Querier, schema, name string) (*Table, error)
	// verify has the database check that the plan's conditions are such, and only read.
	verify(ctx context.Context, db *sql.DB, p *Plan) error
	// Peek runs f where it can only read, and not for longer than limit.
	Peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(Querier) error) error
	// Begin begins a transaction that can write.
	Begin(ctx context.Context, db *sql.DB) (*Session, error)
	// Clock says how a column's times are written; an empty format is the default of its type.
	Clock(c Column, f mapping.TimeFormat) (Clock, error)
	json(expr string, c Column, asJSON bool) string // the value as JSON text
	object(columns []Column, exprs []string) string // a JSON object of columns, as text
	item(doc string, i int, c Column) string        // element i of a JSON array, as c's type
	cast(expr string, c Column) string              // the value as the column would hold it
}

// forms are what the databases differ in that needs no code. A %s stands for an expression.
type forms struct {
	Title         string                    // the database's name
	files         func() *template.Template // its statements
	Mark          string                    // stands before the number of a parameter
	now           string                    // the time now, in microseconds since 1970
	array, Comma  string                    // a JSON array of values, as text; what is between the values of one
	text, hex     string                    // a value as text; bytes as hexadecimal digits
	exactTime     string                    // a time as text that no other time has
	batch, member string                    // the rows v of the JSON array %s; a text of v by its name
	part          string                    // JSON of v by its name
	among         string                    // %[1]s is in the JSON array of strings %[2]s, or that is null
	tokens        map[kind]string           // 32 hexadecimal digits as a value for a column of the kind
	Tables, alike string                    // queries of the names of tables: of all, and of those called $1 in any case
	stranger      string                    // query of the owner of what has the name $1, if one who may write to $2 must not trust it; empty: nothing has an owner

	OneStatement bool // a statement can choose rows, write them and return them
	RowLocks     bool // rows are locked one by one, and others pass over those that are locked
	qualifies    bool // a search path says what names mean, unless they are written with their schema
	escapes      bool // a backslash in a string can mean something; there are E'…' and $$…$$
	Loose        bool // "names" of no column are strings, and others are found in any case; columns hold what is written, whatever their types
}

// Qualified is a statement whose names mean the same whatever the session's path is.
func (d Dialect) Qualified(statement string) string {
	if d.qualifies {
		return qualify.Text(statement)
	}
	return statement
}

// theirs marks a part of a statement that qualified leaves as it is.
func (d Dialect) theirs(part string) string {
	if d.qualifies {
		return qualify.Theirs(part)
	}
	return part
}

// Look reads rows of strings, and not for longer than limit. The query is qualified, and may have parameters.
func (d Dialect) Look(ctx context.Context, db *sql.DB, limit time.Duration, query string, values map[string]any) (rows [][]string, err error) {
	st := numbered(d, query)
	err = d.Peek(ctx, db, limit, func(q Querier) error {
		rows, err = QueryAll(ctx, q, st.Text, st.Args(values)...)
		return err
	})
	return rows, err
}

// Quote writes a name that has been found in the catalogue.
func Quote(identifier string) string {
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}

// Literal writes a value of a mapping.
func (d Dialect) Literal(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "null", nil
	case string:
		return d.str(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return fmt.Sprint(v), nil
		}
	}
	return "", fmt.Errorf("must be null, a boolean, a number or a string; %v is none: put it in quotes if it is meant as text", v)
}

// str writes a string.
func (d Dialect) str(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if d.escapes && strings.Contains(s, `\`) { // means the same whatever standard_conforming_strings says
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// AsText is the value as text.
func (d Dialect) AsText(expr string) string { return fmt.Sprintf(d.text, expr) }

// exact is the value as text that no other value has.
func (d Dialect) exact(expr string, c Column) string {
	form := d.text
	switch c.Kind {
	case Instant, Stamp: // whatever the session's time zone and date style are
		form = d.exactTime
	case Blob:
		form = d.hex
	}
	return fmt.Sprintf(form, expr)
}

// keyed is the value as it stands in a key: a time in UTC, for how one with a zone is written depends on the session's.
func keyed(expr string, c Column) string {
	if c.Kind == Instant {
		return "(" + expr + " at time zone 'utc')"
	}
	return expr
}

// arrayOf is a JSON array of values, as text.
func (d Dialect) arrayOf(exprs []string) string {
	return fmt.Sprintf(d.array, strings.Join(exprs, ", "))
}

// isAmong is true for values in a JSON array of strings, or if that is null.
func (d Dialect) isAmong(expr, list string) string { return fmt.Sprintf(d.among, expr, list) }

// Token is the parameter, 32 hexadecimal digits, as a value for c.
func (d Dialect) Token(param string, c Column) (string, error) {
	form, ok := d.tokens[c.Kind]
	if !ok || c.Length > 0 && c.Length < 32 {
		return "", fmt.Errorf("is of type %s; a token needs uuid, bytes, or text of at least 32 characters", c.Decl)
	}
	return fmt.Sprintf(form, param), nil
}

// Clock is how the times of one column are written.
type Clock struct {
	now    string                   // the time now, as a value for the column
	After  func(secs string) string // the same, so many seconds later
	micros func(expr string) string // a value of the column, as microseconds since 1970
	Grain  time.Duration            // what it rounds down to; 0: finer than any lease
}

// Steps says how exact the times are.
func (c Clock) Steps() string {
	switch c.Grain {
	case 0:
		return "microseconds"
	case time.Millisecond:
		return "milliseconds"
	case time.Second:
		return "whole seconds"
	}
	return "steps of " + c.Grain.String()
}

// Session is a transaction on a connection of its own.
type Session struct {
	Querier
	commit   func() error
	Rollback func()
}

// InTx runs f in a transaction.
func InTx(ctx context.Context, d Dialect, db *sql.DB, f func(Querier) error) error {
	s, err := d.Begin(ctx, db)
	if err != nil {
		return err
	}
	if err = f(s); err != nil {
		s.Rollback()
	} else {
		err = s.commit()
	}
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // database/sql has rolled it back for that
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// DialectOf asks the database what it is.
func DialectOf(ctx context.Context, db *sql.DB) (Dialect, error) {
	var version string
	pgErr := db.QueryRowContext(ctx, "show server_version_num").Scan(&version) // first: a server logs what it does not know
	if pgErr == nil {
		return Postgres, nil
	}
	if err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&version); err == nil {
		return SQLite, nil
	}
	if err := db.PingContext(ctx); err != nil {
		return Dialect{}, err
	}
	return Dialect{}, fmt.Errorf("only PostgreSQL and SQLite can be adopted from so far: %w", pgErr)
}
