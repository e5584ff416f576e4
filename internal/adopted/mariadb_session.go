package adopted

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// mariaEnd is how long the end of a transaction may take.
const mariaEnd = 10 * time.Second

// mariaSession notes what outlives the transaction.
type mariaSession struct {
	*sql.Conn
	after []string // statements that undo it
}

func (s *mariaSession) note(query string) {
	for part, undo := range map[string]string{" get_lock(": "do release_all_locks()", "\ncreate temporary table ": "drop temporary table if exists "} {
		_, rest, found := strings.Cut(query, part)
		if !found {
			continue
		}
		if strings.HasPrefix(undo, "drop") {
			name, _, _ := strings.Cut(rest, " (")
			undo += name
		}
		if len(s.after) == 0 || s.after[len(s.after)-1] != undo {
			s.after = append(s.after, undo)
		}
	}
}

func (s *mariaSession) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.note(query)
	return s.Conn.ExecContext(ctx, query, args...)
}

func (s *mariaSession) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.note(query)
	return s.Conn.QueryContext(ctx, query, args...)
}

// Begin asks for READ COMMITTED, as on PostgreSQL. The server's own default, REPEATABLE READ, also locks gaps between rows.
func (mariaDatabase) Begin(ctx context.Context, db *sql.DB) (*Session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, begin := range []string{"set transaction isolation level read committed", "start transaction"} {
		if _, err := conn.ExecContext(ctx, begin); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	s := &mariaSession{Conn: conn}
	end := func(statement string) error {
		// The transaction must end even if ctx has: others get the connection next.
		whole, stop := context.WithTimeout(context.WithoutCancel(ctx), mariaEnd)
		defer stop()
		_, err := conn.ExecContext(whole, statement)
		for _, undo := range s.after {
			if err == nil {
				_, err = conn.ExecContext(whole, undo)
			}
		}
		if err != nil {
			_ = conn.Raw(func(any) error { return errBad }) // no other caller may get the transaction or its locks
		}
		return errors.Join(err, conn.Close())
	}
	return &Session{
		Querier:  s,
		commit:   func() error { return end("commit") },
		Rollback: func() { _ = end("rollback") }, // the caller reports the error that led here
	}, nil
}

// Peek has the server end each statement after limit.
func (mariaDatabase) Peek(ctx context.Context, db *sql.DB, limit time.Duration, f func(Querier) error) error {
	return f(mariaPeek{db, fmt.Sprintf("set statement max_statement_time = %g for ", limit.Seconds())})
}

type mariaPeek struct {
	*sql.DB
	limit string
}

func (p mariaPeek) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.DB.QueryContext(ctx, p.limit+query, args...)
}
