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

// kind groups column types by what they can hold.
type kind int

const (
	Other kind = iota
	Integer
	Number // number with a fraction
	Boolean
	Text
	Blob
	UUID
	Document // JSON
	Nested   // array, composite type, or another whose JSON is not one value
	Instant  // time with a time zone
	Stamp    // time without a time zone
	Date
)

// Column is a column of a table as the catalogue describes it.
type Column struct {
	Name      string
	Decl      string // declared type, as the database writes it
	exactly   string // PostgreSQL: type with its schema, whatever the search_path is
	equals    string // PostgreSQL: operator for equality, if an extension defines it
	Kind      kind
	Null      bool          // whether the column may hold null
	NullInKey bool          // SQLite: the column may hold null although it is in the primary key
	Def       string        // default, as SQL; empty: there is none
	Length    int           // most characters; 0: no limit
	step      time.Duration // unit to which times are rounded; 0: microseconds
	charset   string        // MariaDB: character set of text
	collation string        // MariaDB: how text is compared
	Generated bool          // statements cannot write the column
	computed  bool          // the database computes the column from others
}

// SQL names the column in statements, where the alias of the table is t.
func (c Column) SQL() string { return "t." + Quote(c.Name) }

// Index is an index of a table.
type Index struct {
	Name    string
	def     string   // statement that creates the index
	Columns []string // names of columns in order; empty if one is an expression
	Where   string   // condition of a partial index; empty: the index has all rows
	Unique  bool
}

// Table is a table as the catalogue describes it.
type Table struct {
	Schema, Name string
	Called       string // name for Mapping.Table, with schema and quotes where they are needed
	ID           int64  // PostgreSQL: oid of the table
	Columns      []Column
	Indexes      []Index
	Triggers     []string // names of triggers
	Whole        bool     // PostgreSQL: the table has no partitions or children
	view         bool
	unfit        string   // why no such table can be adopted; empty: it can
	beneath      []string // tables that a view reads, if they can be found
	rows         int64    // the planner's estimate of the number of rows; -1: not known
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

// names lists the columns for error messages.
func (t *Table) names() string {
	return Joined(t.Columns, ", ", func(_ int, c Column) string { return c.Name })
}

// Keyed reports whether a unique index allows only one row for each combination of values in the columns.
func (t *Table) Keyed(columns []string) bool {
	return slices.ContainsFunc(t.Indexes, func(x Index) bool {
		return x.Unique && x.Where == "" && len(x.Columns) > 0 &&
			!slices.ContainsFunc(x.Columns, func(c string) bool { return !slices.Contains(columns, c) })
	})
}

// Led reports whether an index, not a partial one, begins with the column.
func (t *Table) Led(column string) bool {
	return slices.ContainsFunc(t.Indexes, func(x Index) bool { return x.Where == "" && len(x.Columns) > 0 && x.Columns[0] == column })
}

// QueryAll returns all rows as strings; a null becomes an empty string.
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

// FirstOf returns the first column of all rows.
func FirstOf(rows [][]string, err error) (all []string, _ error) {
	for _, r := range rows {
		all = append(all, r[0])
	}
	return all, err
}
