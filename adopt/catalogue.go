package adopt

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// querier is a *sql.DB, a *sql.Conn or a *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// kind is what a column can hold, as far as it matters here.
type kind int

const (
	other kind = iota
	integer
	number // with a fraction
	boolean
	text
	blob
	uuid
	document // JSON
	instant  // a time with its zone
	stamp    // a time without one
	date
)

// column is a column of a table, as the catalogue has it.
type column struct {
	name      string
	decl      string // its type, as the database writes it
	exactly   string // PostgreSQL: the same as no search_path changes it
	equals    string // PostgreSQL: the operator that compares values, if it is none of the server's own
	kind      kind
	null      bool
	loose     bool          // SQLite: null although it is a primary key
	def       string        // its default, as SQL; empty: none
	length    int           // most characters; 0: no limit
	step      time.Duration // PostgreSQL: what a time of less than full precision is rounded to
	generated bool // it cannot be written
	computed  bool // from other columns
}

// sql is the column in statements, where the table is called t.
func (c column) sql() string { return "t." + quote(c.name) }

// index is an index of a table.
type index struct {
	name    string
	def     string   // as SQL
	columns []string // in order; empty for an expression
	where   string   // its condition, if it is partial
	unique  bool
}

// table is a table, as the catalogue has it.
type table struct {
	schema, name string
	called       string // for Mapping.Table: with its schema, if that is needed, and with quotes likewise
	id           int64  // PostgreSQL: its oid
	columns      []column
	indexes      []index
	triggers     []string // their names
	whole        bool     // PostgreSQL: rows lie in this table alone, not in partitions or children
	view         bool
	beneath      []string // the tables that a view reads, as far as that can be told
	rows         int64 // about how many, as the planner believes; -1: not known
}

func (t *table) column(name string) (column, bool) {
	i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
	if i < 0 {
		return column{}, false
	}
	return t.columns[i], true
}

// names lists the columns, for errors.
func (t *table) names() string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

// keyed reports whether at most one row has the same values of the columns.
func (t *table) keyed(columns []string) bool {
	return slices.ContainsFunc(t.indexes, func(x index) bool {
		return x.unique && x.where == "" && len(x.columns) > 0 &&
			!slices.ContainsFunc(x.columns, func(c string) bool { return !slices.Contains(columns, c) })
	})
}

// led reports whether an index of all rows begins with the column.
func (t *table) led(column string) bool {
	return slices.ContainsFunc(t.indexes, func(x index) bool { return x.where == "" && len(x.columns) > 0 && x.columns[0] == column })
}

// queryAll reads rows of strings, where a null is the empty string.
func queryAll(ctx context.Context, q querier, query string, args ...any) ([][]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all [][]string
	for rows.Next() {
		cells := make([]sql.NullString, len(names))
		to := make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		row := make([]string, len(names))
		for i, c := range cells {
			row[i] = c.String
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// firstOf is the first column.
func firstOf(rows [][]string, err error) (all []string, _ error) {
	for _, r := range rows {
		all = append(all, r[0])
	}
	return all, err
}
