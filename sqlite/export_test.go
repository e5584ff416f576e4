package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// Prepared keeps the statements of a transaction prepared, if it can prepare any.
func Prepared(tx dibs.SQLTx) dibs.SQLTx {
	if p, ok := tx.(preparer); ok {
		return newPrepared(p)
	}
	return tx
}

// WaitInLine has the store wait in line for so long before it also tries by itself.
func (s *Store) WaitInLine(patience time.Duration) { s.turn.patience = patience }

// NoteFruitless records a claim for a kind that has found nothing.
func (s *Store) NoteFruitless(queue, kind string, began time.Time, took time.Duration) {
	s.rests.Note(queue, []string{kind}, began, took, false)
}

// Queued is how many calls wait for the writer.
func (s *Store) Queued() int { return len(s.writer.calls) }

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
func (s *Store) Statement(name string) string { return s.sql.get(name) }

// StatementNames lists the files of sql/.
func (s *Store) StatementNames() []string {
	var names []string
	for name := range s.sql.text {
		names = append(names, name)
	}
	return names
}

// TimedCall is a call that reads its time and goes on for five milliseconds.
func (s *Store) TimedCall(ctx context.Context, now *int64) error {
	return s.writer.call(ctx, func(s *session) (err error) {
		*now, err = s.now()
		time.Sleep(5 * time.Millisecond)
		return err
	})
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
	err = s.writer.call(ctx, func(tx *session) error {
		counted := &countedTx{SQLTx: tx.conn}
		tx.conn = counted
		if _, err := tx.sweep(); err != nil {
			return err
		}
		sweep = counted.statements
		now, err := tx.now()
		if err != nil {
			return err
		}
		_, err = tx.dueQueues(queues, now, nil)
		due = counted.statements - sweep
		return err
	})
	return sweep, due, err
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

// CachedAfter asks for the settings of some queues that there are not, and returns how many the writer remembers then.
func (s *Store) CachedAfter(ctx context.Context, names int) (n int, err error) {
	err = s.write(ctx, "test", func(tx *session) error {
		for i := range names {
			if _, err := tx.queue(fmt.Sprint("none", i)); err != nil {
				return err
			}
		}
		n = len(tx.queues)
		return nil
	})
	return n, err
}
