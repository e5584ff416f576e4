package sqlserver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs/internal/rowstore"
)

// recorder is a driver that notes what the store sends, and gives answers that a test has written down. It shows in which order
// statements go, in which transactions, and with which arguments. It says nothing of what a server does with them.
type recorder struct {
	mu      sync.Mutex
	names   map[string]string              // of statements, by the texts that are sent
	answers map[string][][]driver.Value    // rows by the names of statements; none: no row
	fail    func(name string, n int) error // the error of the n-th run of a statement, from 1; the commit's name is commit
	runs    map[string]int
	events  []event
	conns   int
}

// event is a request to the server.
type event struct {
	conn int
	what string // begin, commit, rollback or the name of a statement
	text string
	args []any
	raw  int // how many parameters it has with the unused one
}

// recorded makes a store on a recorder.
func recorded(t *testing.T, answers map[string][][]driver.Value) (*Store, *recorder) {
	t.Helper()
	text, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(text)
	r := &recorder{names: map[string]string{}, answers: answers, runs: map[string]int{}}
	for name, of := range text.Statements {
		if name != "enqueue_alike" && name != "enqueue_many" { // they are enqueue
			r.names[parse(of).text] = name
		}
	}
	for _, pool := range []**sql.DB{&s.pool, &s.side, &s.callers} {
		*pool = sql.OpenDB(r)
	}
	s.identity = "this"
	s.rows = rowstore.New(engine{s}, &s.sql.Dialect)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, r
}

// take returns what was sent since the last call.
func (r *recorder) take() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.events
	r.events = nil
	return all
}

func (r *recorder) Connect(context.Context) (driver.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns++
	return &recordedConn{r, r.conns}, nil
}

func (r *recorder) Driver() driver.Driver { return nil }

func (r *recorder) note(conn int, what, text string, args []driver.NamedValue) (rows [][]driver.Value, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := event{conn: conn, what: what, text: text}
	e.raw = len(args)
	for _, a := range args {
		if a.Name != unused {
			e.args = append(e.args, a.Value)
		}
	}
	r.events = append(r.events, e)
	r.runs[what]++
	if r.fail != nil {
		err = r.fail(what, r.runs[what])
	}
	return r.answers[what], err
}

// name is that of a statement which is sent as a text.
func (r *recorder) name(text string) string {
	for _, before := range []string{alone + patient, alone} {
		if name, ok := r.names[strings.TrimPrefix(text, before)]; ok {
			return name
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(text, alone), patient)
}

type recordedConn struct {
	r  *recorder
	id int
}

func (c *recordedConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c *recordedConn) Close() error                        { return nil }
func (c *recordedConn) Begin() (driver.Tx, error)           { return nil, errors.New("no isolation is named") }

// CheckNamedValue takes what the real driver takes.
func (c *recordedConn) CheckNamedValue(v *driver.NamedValue) error {
	return (&mssql.Conn{}).CheckNamedValue(v)
}

func (c *recordedConn) BeginTx(_ context.Context, o driver.TxOptions) (driver.Tx, error) {
	_, err := c.r.note(c.id, "begin", sql.IsolationLevel(o.Isolation).String(), nil)
	return &recordedTx{c}, err
}

func (c *recordedConn) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	_, err := c.r.note(c.id, c.r.name(text), text, args)
	return driver.RowsAffected(1), err
}

func (c *recordedConn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.r.note(c.id, c.r.name(text), text, args)
	return &recordedRows{rows: rows}, err
}

type recordedTx struct{ c *recordedConn }

func (tx *recordedTx) Commit() error {
	_, err := tx.c.r.note(tx.c.id, "commit", "", nil)
	return err
}

func (tx *recordedTx) Rollback() error {
	_, err := tx.c.r.note(tx.c.id, "rollback", "", nil)
	return err
}

type recordedRows struct{ rows [][]driver.Value }

func (r *recordedRows) Columns() []string {
	if len(r.rows) == 0 {
		return []string{"none"}
	}
	return make([]string, len(r.rows[0]))
}

func (r *recordedRows) Close() error { return nil }

func (r *recordedRows) Next(to []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(to, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// shown is a request in a line.
func (e event) shown() string {
	words := []string{e.what}
	if e.what == "begin" {
		words = append(words, e.text)
	}
	for _, a := range e.args {
		switch a := a.(type) {
		case nil:
			words = append(words, "null")
		case []byte:
			switch {
			case a == nil:
				words = append(words, "null of bytes")
			case slices.ContainsFunc(a, func(b byte) bool { return b < ' ' || b > '~' }):
				words = append(words, fmt.Sprintf("%d bytes", len(a)))
			default:
				words = append(words, fmt.Sprintf("bytes %q", a))
			}
		case mssql.NVarCharMax:
			words = append(words, fmt.Sprintf("text %q", string(a)))
		default:
			words = append(words, fmt.Sprintf("%T %v", a, a))
		}
	}
	return strings.Join(words, ", ")
}
