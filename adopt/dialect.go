package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// dialect is what the databases write differently in the parts that statements are
// made of. The statements themselves are files, in sql/NAME.
type dialect interface {
	name() string // of its folder of statements
	title() string
	mark() string // what the number of a parameter follows
	// qualified is a statement whose names mean the same whatever the session's path is; theirs marks what is left as written.
	qualified(statement string) string
	theirs(part string) string
	// lookUp reads the catalogue. It returns nil if there is no such table.
	lookUp(ctx context.Context, q querier, schema, name string) (*table, error)
	verify(ctx context.Context, db *sql.DB, p *plan, conds []*condition) error // that they are conditions, and only read
	// stranger is the owner of what has the side table's name, if that role is not to be trusted with it, else empty.
	stranger(ctx context.Context, q querier, p *plan) (string, error)
	// peek runs f where it can only read, and not for longer than limit.
	peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(querier) error) error
	// reads tells how many rows a claim of one row reads, or in words how it finds them.
	reads(ctx context.Context, q querier, s *Store) (rows int64, how string, err error)
	// served names the index by which the planner can give rows in the order of claims, if there is one: without reading
	// those that have ended, and without sorting but for ids of rows whose places are equal.
	served(ctx context.Context, q querier, s *Store) (index string, err error)
	odd(c column, f TimeFormat, expr string) string                                 // true for times that are not as clock writes them; empty: there are none
	allowed(ctx context.Context, q querier, on *table) (map[string][]string, error) // values of columns, by types and checks
	timesOf(c column, sample string) (f TimeFormat, sure bool)                      // how a column seems to hold times
	locks(ctx context.Context, q querier, p *plan, n int) ([]string, error)         // what a claim of n rows holds, in words
	tables() string                                                                 // a query of their names
	alike() string                                                                  // a query of tables by a name in any case
	beneath(ctx context.Context, q querier, view *table) ([]string, error)          // the tables that a view reads
	stored(expr string, c column) string                                            // the value as the column would hold it
	can() traits
	quote(identifier string) string
	literal(v any) (string, error)
	// clock says how a column's times are written; an empty format is the default of its type.
	clock(c column, f TimeFormat) (clock, error)
	json(expr string, c column, asJSON bool) string          // the value as JSON text
	array(exprs []string) string                             // a JSON array of values, as text
	object(columns []column, exprs []string) string          // a JSON object of columns, as text
	keyed(expr string, c column) string                      // the value as it stands in a key
	comma() string                                           // between the values of such an array
	item(doc string, i int, c column) string                 // element i of a JSON array, as c's type
	document(text string) string                             // text as a JSON array for item
	exact(expr string, c column) string                      // the value as text that no other value has
	token(param string, c column) (expr string, err error)   // the parameter, 32 hexadecimal digits, as a value for c
	text(expr string) string                                 // the value as text
	micros() string                                          // the time now, in microseconds since 1970
	cast(expr string, c column) string                       // text as a value for c
	among(expr, list string) string                          // expr is in the JSON array of strings, or that is null
	begin(ctx context.Context, db *sql.DB) (*session, error) // a transaction that can write
}

// traits are what statements can do.
type traits struct {
	oneStatement bool // choose rows, write them and return them
	rowLocks     bool // lock rows one by one, and pass over those that others have locked
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
		return postgresDialect{}, nil
	}
	if err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&version); err == nil {
		return sqliteDialect{}, nil
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("only PostgreSQL and SQLite can be adopted from so far: %w", pgErr)
}
