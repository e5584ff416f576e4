// Package reads has the calls of admin.Database that only read, written once for all databases. It has what each call
// checks, the statement that a call runs, and the readers of jobs, queues, schedules and the rest.
//
// A database brings a Database, and for each name a statement whose parameters and columns are those of the other
// databases: the headers of the files in sql/ say which. The scanners take what any driver gives.
package reads

import (
	"context"
	"time"
)

// Database is what a store does for the calls that only read.
type Database interface {
	// Ready refuses the call op on a store that is nil, closed or lost, or with a context that is nil.
	Ready(ctx context.Context, op string) error
	// Read runs statements in their order, if possible in one transaction and one round trip. Arguments are strings,
	// integers, booleans, times, pointers to times, lists of strings or ids, and nil for null.
	Read(ctx context.Context, all ...Statement) error
	// Failed turns an error of Read into one of dibs that names the call op; nil stays nil.
	Failed(op string, err error) error
}

// Scan copies the columns of a row.
type Scan = func(to ...any) error

// Statement is one that only reads. Begin, if it is not nil, is called each time before it is sent, as a transaction
// may be repeated, and Row for each row.
type Statement struct {
	Name  string
	Args  []any
	Begin func()
	Row   func(Scan) error
}

// Calls are the methods of admin.Database that only read.
type Calls struct {
	Database
	// Now, if not nil, is the database's time. It is set for databases whose statements may return times at which
	// jobs may go on that have passed already.
	Now func() time.Time
}

// Collect reads the rows of a statement into a list, which is never nil. columns are where a row's values go: all rows
// are read into the same variables, as allocating new ones for each row takes longer than all else.
func Collect[T any](to *[]T, columns func(*T) []any) (begin func(), row func(Scan) error) {
	one := new(T)
	values := columns(one)
	return func() { *to = []T{} }, func(scan Scan) error {
		err := scan(values...)
		*to = append(*to, *one)
		return err
	}
}

// One is where the value of a row with one column goes.
func One[T any](to *T) []any { return []any{to} }

// rows is a statement whose rows are collected in a list.
func rows[T any](to *[]T, columns func(*T) []any, name string, args ...any) Statement {
	begin, row := Collect(to, columns)
	return Statement{Name: name, Args: args, Begin: begin, Row: row}
}

// list runs one statement for the call op and collects its rows. refused is the error of the call's arguments, if any.
func list[T any](ctx context.Context, c Calls, op string, refused error, columns func(*T) []any, name string, args ...any) (all []T, err error) {
	if err := c.Ready(ctx, op); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	if err := c.Read(ctx, rows(&all, columns, name, args...)); err != nil {
		return nil, c.Failed(op, err)
	}
	return all, nil
}
