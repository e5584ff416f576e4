package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Prepared keeps the statements of a transaction prepared, if it can prepare any.
func Prepared(tx dibs.SQLTx) dibs.SQLTx {
	if p, ok := tx.(rowstore.Preparer); ok {
		return rowstore.NewPrepared(p)
	}
	return tx
}

// WaitInLine has the store wait in line for so long before it also tries by itself.
func (s *Store) WaitInLine(patience time.Duration) { s.turn.patience = patience }

// NoteFruitless records a claim for a kind that has found nothing.
func (s *Store) NoteFruitless(queue, kind string, began time.Time, took time.Duration) {
	s.rows.Rests.Note(queue, []string{kind}, began, took, false)
}

// Queued is how many calls wait for the writer.
func (s *Store) Queued() int { return s.writer.calls.Queued() }

// OnWriter runs a statement on the writing connection, outside of any transaction.
func (s *Store) OnWriter(ctx context.Context, text string) error {
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.pass()
	_, err := s.writer.conn.ExecContext(ctx, text)
	return err
}

// WriterPragma reads a setting of the writing connection.
func (s *Store) WriterPragma(ctx context.Context, name string) (value int, err error) {
	if err := s.turn.take(ctx); err != nil {
		return 0, err
	}
	defer s.turn.pass()
	return value, s.writer.conn.QueryRowContext(ctx, "pragma "+name).Scan(&value)
}

// Statement is a statement of sql/ as the store runs it.
func (s *Store) Statement(name string) string { return s.sql.Statements.Get(name) }

// StatementNames lists the files of sql/.
func (s *Store) StatementNames() []string {
	var names []string
	for name := range s.sql.Statements {
		names = append(names, name)
	}
	return names
}

// testEngine has a test run what the store's calls do in their transactions.
type testEngine struct {
	engine
	run func(tx *rowstore.Session, f func(*rowstore.Session) error) error
}

func (e testEngine) Write(ctx context.Context, f func(*rowstore.Session) error) error {
	return e.engine.Write(ctx, func(tx *rowstore.Session) error { return e.run(tx, f) })
}

// TimedCall is a call that reads its time and goes on for five milliseconds.
func (s *Store) TimedCall(ctx context.Context, now *int64) error {
	slow := rowstore.New(testEngine{engine{s}, func(tx *rowstore.Session, f func(*rowstore.Session) error) error {
		defer time.Sleep(5 * time.Millisecond)
		return f(tx)
	}}, &s.sql.Dialect)
	done, err := slow.Enqueue(ctx, []dibs.NewJob{{Kind: "timed"}})
	if err != nil {
		return err
	}
	j, err := s.Get(ctx, done[0].ID)
	if err == nil {
		*now = j.CreatedAt.UnixMicro()
	}
	return err
}

// LineSuffix is the end of the name of the file that processes lock to queue.
const LineSuffix = lineSuffix

// InLine reports whether a request for the turn waits behind another process.
func (s *Store) InLine() bool {
	s.turn.line.mu.Lock()
	defer s.turn.line.mu.Unlock()
	return s.turn.line.asked
}

// HasLine reports whether processes queue for the file.
func (s *Store) HasLine() bool { return s.turn.line.exists() }

// StopInLine takes the turn and writes nothing, as a process does that was stopped, until it goes on.
func (s *Store) StopInLine() (goOn func()) {
	s.turn.line.join()
	return s.turn.line.leave
}

// Tries has a transaction wait for its turn beside a process that holds the file's write lock, until it has tried that
// lock n times.
func (s *Store) Tries(ctx context.Context, n int, locked error) error {
	_, err := s.turn.begin(ctx, time.Hour, func() error {
		if n--; n > 0 {
			return locked
		}
		return nil
	})
	s.turn.line.leave()
	return err
}

// CountStatements counts what a sweep runs, and what a look for due jobs in these queues runs.
func (s *Store) CountStatements(ctx context.Context, queues []string) (sweep, due int, err error) {
	counted := &countedTx{SQLTx: s.writer.prepared}
	rows := rowstore.New(testEngine{engine{s}, func(_ *rowstore.Session, f func(*rowstore.Session) error) error {
		tx := rowstore.NewSession(ctx, counted, &s.sql.Dialect)
		tx.Use(s.writer.memory)
		return errors.Join(f(tx), tx.WriteTally())
	}}, &s.sql.Dialect)
	if _, err := rows.Sweep(ctx); err != nil {
		return 0, 0, err
	}
	sweep = counted.statements
	if err := s.StopSweeping(ctx); err != nil {
		return 0, 0, err
	}
	_, err = rows.Due(ctx, queues, nil)
	return sweep, counted.statements - sweep, err
}

type countedTx struct {
	dibs.SQLTx
	statements int
}

func (c *countedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.statements++
	return c.SQLTx.ExecContext(ctx, query, args...)
}

func (c *countedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.statements++
	return c.SQLTx.QueryContext(ctx, query, args...)
}
