package adopted

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// Querier is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// kind is what a column can hold, as far as it matters here.
type kind int

const (
	Other kind = iota
	Integer
	Number // with a fraction
	Boolean
	Text
	Blob
	UUID
	Document // JSON
	Instant  // a time with its zone
	Stamp    // a time without one
	Date
)

// Column is a column of a table, as the catalogue has it.
type Column struct {
	Name      string
	Decl      string // its type, as the database writes it
	exactly   string // PostgreSQL: the same as no search_path changes it
	equals    string // PostgreSQL: the operator that compares values, if it is none of the server's own
	Kind      kind
	Null      bool
	Loose     bool          // SQLite: null although it is a primary key
	Def       string        // its default, as SQL; empty: none
	Length    int           // most characters; 0: no limit
	step      time.Duration // PostgreSQL: what a time of less than full precision is rounded to
	Generated bool          // it cannot be written
	computed  bool          // from other columns
}

// SQL is the column in statements, where the table is called t.
func (c Column) SQL() string { return "t." + Quote(c.Name) }

// Index is an index of a table.
type Index struct {
	Name    string
	def     string   // as SQL
	Columns []string // in order; empty for an expression
	Where   string   // its condition, if it is partial
	Unique  bool
}

// Table is a table, as the catalogue has it.
type Table struct {
	Schema, Name string
	Called       string // for Mapping.Table: with its schema, if that is needed, and with quotes likewise
	ID           int64  // PostgreSQL: its oid
	Columns      []Column
	Indexes      []Index
	Triggers     []string // their names
	Whole        bool     // PostgreSQL: rows lie in this table alone, not in partitions or children
	view         bool
	beneath      []string // the tables that a view reads, as far as that can be told
	rows         int64    // about how many, as the planner believes; -1: not known
}

// Quoted is the table's name in SQL.
func (t *Table) Quoted() string { return Quote(t.Schema) + "." + Quote(t.Name) }

// Column finds a column by its name.
func (t *Table) Column(name string) (Column, bool) {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return t.Columns[i], true
}

// names lists the columns, for errors.
func (t *Table) names() string {
	return joined(t.Columns, ", ", func(_ int, c Column) string { return c.Name })
}

// Keyed reports whether at most one row has the same values of the columns.
func (t *Table) Keyed(columns []string) bool {
	return slices.ContainsFunc(t.Indexes, func(x Index) bool {
		return x.Unique && x.Where == "" && len(x.Columns) > 0 &&
			!slices.ContainsFunc(x.Columns, func(c string) bool { return !slices.Contains(columns, c) })
	})
}

// Led reports whether an index of all rows begins with the column.
func (t *Table) Led(column string) bool {
	return slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Where == "" && len(x.Columns) > 0 && x.Columns[0] == column })
}

// QueryAll reads rows of strings, where a null is the empty string.
func QueryAll(ctx context.Context, q Querier, query string, args ...any) ([][]string, error) {
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

// FirstOf is the first column.
func FirstOf(rows [][]string, err error) (all []string, _ error) {
	for _, r := range rows {
		all = append(all, r[0])
	}
	return all, err
}
