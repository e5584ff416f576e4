package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// StatementNames lists the statements that the store runs.
func (s *Store) StatementNames() []string {
	return slices.Sorted(maps.Keys(s.sql.Statements))
}

// Statement is the text of a statement.
func (s *Store) Statement(name string) string { return s.sql.Statements.Get(name) }

// begins matches blocks, and what begins and ends transactions.
var begins = regexp.MustCompile(`^(begin|start|rollback)`)

// Explain reads the plans of the parts of a statement that read or write rows, but those of blocks. arg gives the argument for each number.
func (s *Store) Explain(ctx context.Context, name string, arg func(n int) any, each func(part, table, kind, extra string)) error {
	c, err := s.any().pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, p := range parse(s.sql.Statements.Get(name)).parts {
		if begins.MatchString(p.text) {
			continue
		}
		args := make([]any, 0, len(p.order))
		for _, at := range p.order {
			args = append(args, arg(at.place+1))
		}
		rows, err := c.QueryContext(ctx, "explain "+p.text, args...)
		if err != nil {
			return err
		}
		for rows.Next() {
			var table, kind, extra sql.NullString
			var other any
			if err := rows.Scan(&other, &other, &table, &kind, &other, &other, &other, &other, &other, &extra); err != nil {
				return errors.Join(err, rows.Close())
			}
			each(p.text, table.String, kind.String, extra.String)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}

// ReadBy runs a statement in a transaction that it rolls back, and returns how many rows and entries of indexes the server
// has read for it.
func (s *Store) ReadBy(ctx context.Context, name string, args ...any) (n int, err error) {
	c, err := s.any().pool.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.ExecContext(ctx, "start transaction"); err != nil {
		return 0, err
	}
	defer rollback(ctx, c)
	before, err := handlerReads(ctx, c)
	if err != nil {
		return 0, err
	}
	nothing := func(*sql.Rows) error { return nil }
	if err := rowstore.Each(ctx, conn{c, s.joined()}, s.sql.Statements.Get(name), nothing, args...); err != nil {
		return 0, err
	}
	after, err := handlerReads(ctx, c)
	return after - before, err
}

// handlerReads is how many rows and entries of indexes a session has read.
func handlerReads(ctx context.Context, c *sql.Conn) (sum int, err error) {
	err = rowstore.Each(ctx, c, "show session status like 'Handler_read%'", func(rows *sql.Rows) error {
		var name string
		var n int
		err := rows.Scan(&name, &n)
		sum += n
		return err
	})
	return sum, err
}

// Drift has the store believe that the server's clock is ahead of the system's, and that it was read some time ago.
func (s *Store) Drift(ahead, ago time.Duration) {
	s.clock.ahead.Store(int64(ahead))
	s.clock.seen.Store(time.Now().Add(-ago).UnixNano())
}

// Now is the server's time as the store knows it.
func (s *Store) Now() time.Time { return s.clock.now() }

// Look does what comes before each look for new work.
func (s *Store) Look(ctx context.Context) { s.look(ctx) }

// Impatient has Diagnose report at once what usually must have lasted for a time, or exceed a large number.
func (s *Store) Impatient() {
	soon := strings.NewReplacer("2000000 ", "0 ", "> 60000 ", ">= 0 ", "> 60000000", ">= 0", "300000000", "0", "> 2000", ">= 0", "100000 ", "100 ", ">= 100000", ">= 100",
		"- 30000000", "- 0", "- 60000000", "- 0", "600000000", "0", "10000)", "10)")
	for _, name := range []string{"diagnose_jobs", "diagnose_server", "diagnose_sessions"} {
		s.sql.Statements[name] = soon.Replace(s.sql.Statements[name])
	}
}

// Stand begins a transaction of the store's own, runs a statement in it, and stands still then as a process that is stopped.
func (s *Store) Stand(ctx context.Context, text string) error {
	c, err := s.any().pool.Conn(ctx)
	if err == nil {
		_, err = c.ExecContext(ctx, "start transaction")
	}
	if err == nil {
		_, err = c.ExecContext(ctx, text)
	}
	return err
}

// OnInboxTaken has f called for each row of the inbox that the store has taken.
func (s *Store) OnInboxTaken(f func(row int64, done dibs.Enqueued, refused error)) {
	s.rows.InboxTaken = f
}

// LookAtInbox runs the statement that tells whether rows stand in the inbox.
func (s *Store) LookAtInbox(ctx context.Context) error {
	return s.read(ctx, "inbox_waiting", func(*sql.Rows) error { return nil }, "[]")
}

// StandStill takes the turn of the inbox in a transaction, and leaves that open.
func (s *Store) StandStill(ctx context.Context) error {
	c, err := s.any().pool.Conn(ctx)
	if err != nil {
		return err
	}
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	session := rowstore.NewSession(ctx, conn{tx, apart}, &s.sql.Dialect)
	if got, err := s.turn(s.any(), session, rowstore.TurnInbox, "", false); err != nil || !got {
		return fmt.Errorf("the turn was not got: %w", err)
	}
	return nil
}

// HomeOf is the host of the node to which calls about a queue go now.
func (s *Store) HomeOf(ctx context.Context, queue string) string {
	place := rowstore.PlaceOf(queue)
	return s.at(fmt.Sprintf("queue %02x", place)).host
}

// InTxWith is InTx, and also hands out the transaction.
func (s *Store) InTxWith(ctx context.Context, f func(tx dibs.Tx, own dibs.SQLTx) error) error {
	var own rowstore.OwnTx
	begin := func(ctx context.Context) (_ rowstore.OwnTx, err error) {
		own, err = s.begin(ctx)
		return own, err
	}
	return s.common().InTx(ctx, begin, func(tx dibs.Tx) error { return f(tx, own) })
}
