package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/qualify"
)

// dialect is what the databases write differently in the parts that statements are
// made of. The statements themselves are files, in sql/FOLDER.
type dialect struct {
	forms
	database
}

// database is what takes code of its own for each database.
type database interface {
	// lookUp reads the catalogue. It returns nil if there is no such table.
	lookUp(ctx context.Context, q querier, schema, name string) (*table, error)
	// verify has the database check that these are conditions, and only read.
	verify(ctx context.Context, db *sql.DB, p *plan, conds []*condition) error
	// peek runs f where it can only read, and not for longer than limit.
	peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(querier) error) error
	// begin begins a transaction that can write.
	begin(ctx context.Context, db *sql.DB) (*session, error)
	// clock says how a column's times are written; an empty format is the default of its type.
	clock(c column, f TimeFormat) (clock, error)
	json(expr string, c column, asJSON bool) string // the value as JSON text
	object(columns []column, exprs []string) string // a JSON object of columns, as text
	item(doc string, i int, c column) string        // element i of a JSON array, as c's type
	cast(expr string, c column) string              // the value as the column would hold it
}

// forms are what the databases differ in that needs no code. A %s stands for an expression.
type forms struct {
	folder, title string          // the statements' folder; the database's name for people
	mark          string          // stands before the number of a parameter
	now           string          // the time now, in microseconds since 1970
	array, comma  string          // a JSON array of values, as text; what is between the values of one
	text, hex     string          // a value as text; bytes as hexadecimal digits
	exactTime     string          // a time as text that no other time has
	among         string          // %[1]s is in the JSON array of strings %[2]s, or that is null
	tokens        map[kind]string // 32 hexadecimal digits as a value for a column of the kind
	tables, alike string          // queries of the names of tables: of all, and of those called $1 in any case
	stranger      string          // query of the owner of what has the name $1, if one who may write to $2 must not trust it; empty: nothing has an owner

	oneStatement bool // a statement can choose rows, write them and return them
	rowLocks     bool // rows are locked one by one, and others pass over those that are locked
	qualifies    bool // a search path says what names mean, unless they are written with their schema
	escapes      bool // a backslash in a string can mean something; there are E'…' and $$…$$
	loose        bool // "names" of no column are strings, and others are found in any case; columns hold what is written, whatever their types
}

// qualified is a statement whose names mean the same whatever the session's path is.
func (d dialect) qualified(statement string) string {
	if d.qualifies {
		return qualify.Text(statement)
	}
	return statement
}

// theirs marks a part of a statement that qualified leaves as it is.
func (d dialect) theirs(part string) string {
	if d.qualifies {
		return qualify.Theirs(part)
	}
	return part
}

func quote(identifier string) string {
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}

// literal writes a value of a mapping.
func (d dialect) literal(v any) (string, error) {
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
func (d dialect) str(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if d.escapes && strings.Contains(s, `\`) { // means the same whatever standard_conforming_strings says
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// asText is the value as text.
func (d dialect) asText(expr string) string { return fmt.Sprintf(d.text, expr) }

// exact is the value as text that no other value has.
func (d dialect) exact(expr string, c column) string {
	form := d.text
	switch c.kind {
	case instant, stamp: // whatever the session's time zone and date style are
		form = d.exactTime
	case blob:
		form = d.hex
	}
	return fmt.Sprintf(form, expr)
}

// keyed is the value as it stands in a key: a time in UTC, for how one with a zone is written depends on the session's.
func keyed(expr string, c column) string {
	if c.kind == instant {
		return "(" + expr + " at time zone 'utc')"
	}
	return expr
}

// arrayOf is a JSON array of values, as text.
func (d dialect) arrayOf(exprs []string) string {
	return fmt.Sprintf(d.array, strings.Join(exprs, ", "))
}

// isAmong is true for values in a JSON array of strings, or if that is null.
func (d dialect) isAmong(expr, list string) string { return fmt.Sprintf(d.among, expr, list) }

// token is the parameter, 32 hexadecimal digits, as a value for c.
func (d dialect) token(param string, c column) (string, error) {
	form, ok := d.tokens[c.kind]
	if !ok || c.length > 0 && c.length < 32 {
		return "", fmt.Errorf("is of type %s; a token needs uuid, bytes, or text of at least 32 characters", c.decl)
	}
	return fmt.Sprintf(form, param), nil
}

// clock is how the times of one column are written.
type clock struct {
	now    string                   // the time now, as a value for the column
	after  func(secs string) string // the same, so many seconds later
	micros func(expr string) string // a value of the column, as microseconds since 1970
	grain  time.Duration            // what it rounds down to; 0: finer than any lease
}

// steps says how exact the times are.
func (c clock) steps() string {
	switch c.grain {
	case 0:
		return "microseconds"
	case time.Millisecond:
		return "milliseconds"
	case time.Second:
		return "whole seconds"
	}
	return "steps of " + c.grain.String()
}

// session is a transaction on a connection of its own.
type session struct {
	querier
	commit   func() error
	rollback func()
}

// inTx runs f in a transaction.
func inTx(ctx context.Context, d dialect, db *sql.DB, f func(querier) error) error {
	s, err := d.begin(ctx, db)
	if err != nil {
		return err
	}
	if err = f(s); err != nil {
		s.rollback()
	} else {
		err = s.commit()
	}
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // database/sql has rolled it back for that
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// dialectOf asks the database what it is.
func dialectOf(ctx context.Context, db *sql.DB) (dialect, error) {
	var version string
	pgErr := db.QueryRowContext(ctx, "show server_version_num").Scan(&version) // first: a server logs what it does not know
	if pgErr == nil {
		return postgresDialect, nil
	}
	if err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&version); err == nil {
		return sqliteDialect, nil
	}
	if err := db.PingContext(ctx); err != nil {
		return dialect{}, err
	}
	return dialect{}, fmt.Errorf("only PostgreSQL and SQLite can be adopted from so far: %w", pgErr)
}
