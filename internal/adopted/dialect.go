package adopted

import (
	"cmp"
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

// Dialect holds what the databases write differently in the parts of statements. The statements
// are files: in the folder sql if they are the same for all, else in a folder below it.
type Dialect struct {
	forms
	database
}

// database has the methods that need code of their own for each database.
type database interface {
	// lookUp reads a table from the catalogue. It returns nil if there is no such table.
	lookUp(ctx context.Context, q Querier, schema, name string) (*Table, error)
	// verify lets the database check that the plan's conditions are valid, and that they only read.
	verify(ctx context.Context, db *sql.DB, p *Plan) error
	// Peek runs f on a Querier that only reads, and ends its statements after limit.
	Peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(Querier) error) error
	// Begin begins a transaction that can write.
	Begin(ctx context.Context, db *sql.DB) (*Session, error)
	// Clock returns how a column's times are written. An empty format means the default of its type.
	Clock(c Column, f mapping.TimeFormat) (Clock, error)
	json(expr string, c Column, asJSON bool) string // SQL for a value as JSON text
	object(columns []Column, exprs []string) string // SQL for a JSON object of columns, as text
	item(doc string, i int, c Column) string        // SQL for element i of a JSON array, in the type of c
	cast(expr string, c Column) string              // SQL for a value in the type of c
}

// forms holds the differences between databases that need no code. A %s stands for an expression.
type forms struct {
	Title         string                    // name of the database
	files         func() *template.Template // templates of the statements
	Mark          string                    // sign before the number of a parameter
	now           string                    // current time in microseconds since 1970
	array, Comma  string                    // JSON array of values, as text; separator between its values
	text, hex     string                    // value as text; bytes as hexadecimal digits
	exactTime     string                    // time as text, different for each time
	exactInstant  string                    // the same for an Instant; empty: exactTime
	keys          map[kind]string           // value of the kind as a key contains it, independent of the session; none: the value itself
	common        string                    // what stands before a common table expression that is evaluated once
	batch, member string                    // rows v of the JSON array %s; text of a member of v
	part          string                    // JSON of a member of v
	among         string                    // condition: %[1]s is in the JSON array of strings %[2]s, or the array is null
	tokens        map[kind]string           // value for a column of the kind, from 32 hexadecimal digits
	Tables, alike string                    // queries that list tables: all, and those with the name $1 in any case
	stranger      string                    // query for the owner of table $1, unless users of table $2 can trust this owner; empty: tables have no owners

	OneStatement bool // one statement can choose rows, write them and return them
	RowLocks     bool // transactions lock single rows, and claims can skip locked rows
	qualifies    bool // names without a schema depend on a search path
	escapes      bool // strings can contain escapes; E'…' and $$…$$ are strings
	backticks    bool // names stand in backticks, and strings can contain escapes
	unnumbered   bool // parameters have no numbers: each is given as often as it stands in a statement
	SessionLocks bool // turns are locks of a session: only a Session releases them, no transaction of a caller
	Lenient      bool // a quoted name of no column is a string; names match in any case; columns accept values of any type
}

// Qualified writes a statement so that its names depend neither on the session's search path nor on its quotes.
func (d Dialect) Qualified(statement string) string {
	switch {
	case d.qualifies:
		return qualify.Text(statement)
	case d.backticks:
		return backticked(statement)
	}
	return statement
}

// theirs marks a part of a statement that Qualified leaves as it is.
func (d Dialect) theirs(part string) string {
	if d.qualifies || d.backticks {
		return qualify.Theirs(part)
	}
	return part
}

// Look returns the rows of a query as strings, and ends it after limit. It qualifies the query, which may have parameters.
func (d Dialect) Look(ctx context.Context, db *sql.DB, limit time.Duration, query string, values map[string]any) (rows [][]string, err error) {
	st := numbered(d, query)
	err = d.Peek(ctx, db, limit, func(q Querier) error {
		rows, err = QueryAll(ctx, q, st.Text, st.Args(values)...)
		return err
	})
	return rows, err
}

// Quote writes a name of the catalogue in quotes.
func Quote(identifier string) string {
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}

// Quoted writes a name of the catalogue as people write it in a mapping's conditions.
func (d Dialect) Quoted(identifier string) string {
	if d.backticks {
		return backticked(Quote(identifier))
	}
	return Quote(identifier)
}

// Literal writes a value of a mapping as SQL.
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
	return "", fmt.Errorf("must be null, a boolean, a number or a string, not %v; put it in quotes if it is meant as text", v)
}

// str writes a string as SQL.
func (d Dialect) str(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if d.escapes && strings.Contains(s, `\`) { // E'…' does not depend on standard_conforming_strings
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	if d.backticks && strings.Contains(s, `\`) { // what it means depends on sql_mode
		return fmt.Sprintf("_utf8mb4 x'%x'", s)
	}
	return quoted
}

// AsText is SQL for a value as text.
func (d Dialect) AsText(expr string) string { return fmt.Sprintf(d.text, expr) }

// exact is SQL for a value as text that differs for any two values.
func (d Dialect) exact(expr string, c Column) string {
	form := d.text
	switch c.Kind {
	case Instant:
		form = cmp.Or(d.exactInstant, d.exactTime)
	case Stamp: // plain text depends on the session's date style
		form = d.exactTime
	case Blob:
		form = d.hex
	}
	return fmt.Sprintf(form, expr)
}

// inKey is SQL for a value as a key contains it. Times are in UTC there, independent of the session's time zone.
func (d Dialect) inKey(expr string, c Column) string {
	if form, ok := d.keys[c.Kind]; ok {
		return fmt.Sprintf(form, expr)
	}
	return expr
}

// arrayOf is SQL for a JSON array of values, as text.
func (d Dialect) arrayOf(exprs []string) string {
	return fmt.Sprintf(d.array, strings.Join(exprs, ", "))
}

// isAmong is a condition: the value is in a JSON array of strings, or the array is null.
func (d Dialect) isAmong(expr, list string) string { return fmt.Sprintf(d.among, expr, list) }

// Token is SQL for the parameter, 32 hexadecimal digits, as a value for c.
func (d Dialect) Token(param string, c Column) (string, error) {
	form, ok := d.tokens[c.Kind]
	if !ok || c.Length > 0 && c.Length < 32 {
		return "", fmt.Errorf("is of type %s; a token needs uuid, bytes, or text of at least 32 characters", c.Decl)
	}
	return fmt.Sprintf(form, param), nil
}

// Clock writes and reads the times of one column.
type Clock struct {
	now    string                   // current time as a value for the column
	down   string                   // the same, never rounded up
	After  func(secs string) string // time that many seconds from now, as a value for the column
	micros func(expr string) string // value of the column in microseconds since 1970
	float  string                   // type of numbers with a fraction; empty: double precision
	Grain  time.Duration            // unit to which times are rounded down; 0: microseconds
}

// Steps names the unit of the times.
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
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // database/sql has rolled back because the context ended
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// InSavepoint runs f, and undoes what it has done if it fails. The error Is ErrEnded if the whole transaction has ended.
func InSavepoint(ctx context.Context, q Querier, name string, f func() error) error {
	if _, err := q.ExecContext(ctx, "savepoint "+name); err != nil {
		return err
	}
	err := f()
	if err != nil {
		if _, undo := q.ExecContext(ctx, "rollback to savepoint "+name); undo != nil {
			return fmt.Errorf("%w: %w", ErrEnded, err)
		}
	}
	if _, release := q.ExecContext(ctx, "release savepoint "+name); err == nil {
		err = release
	}
	return err
}

// DialectOf asks the database which dialect it speaks.
func DialectOf(ctx context.Context, db *sql.DB) (Dialect, error) {
	var version string
	pgErr := db.QueryRowContext(ctx, "show server_version_num").Scan(&version) // asked first: PostgreSQL would log the other query as an error
	if pgErr == nil {
		return Postgres, nil
	}
	if mariaError(pgErr) != nil {
		return MariaDB, suitable(ctx, db)
	}
	if err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&version); err == nil {
		return SQLite, nil
	}
	if err := db.PingContext(ctx); err != nil {
		return Dialect{}, err
	}
	return Dialect{}, fmt.Errorf("only tables of PostgreSQL, MariaDB and SQLite can be adopted: %w", pgErr)
}
