package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// wrap wraps a database error with the operation, and with the sentinel that
// says what the caller can do. It goes by SQLSTATE, never by text, and leaves errors of the input as they are.
func wrap(op string, err error) error {
	if err == nil || errors.Is(err, dibs.ErrInvalid) {
		return err
	}
	err = inOneSentence(err)
	// If no connection was made in time, the server is unavailable, even if the caller's own time is not over.
	late := errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*pgconn.ConnectError))
	if late || errors.Is(err, context.Canceled) || errors.Is(err, dibs.ErrSchema) {
		return checks.Failed(op, err)
	}
	if errors.Is(err, puddle.ErrClosedPool) {
		return checks.Failed(op, dibs.ErrClosed)
	}
	if hasCode(err, "25006") { // read_only_sql_transaction
		err = &checks.ReadOnlyError{Why: checks.ReadOnlyServer, Err: err}
	}
	if sentinel := sentinelFor(err); sentinel != nil && !errors.Is(err, sentinel) {
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	return checks.Failed(op, err)
}

// inOneSentence names the server and the first cause, where a connection was not made.
func inOneSentence(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) || connect.Config == nil {
		return err
	}
	return checks.NotConnected(err, hosts(connect.Config)...)
}

// hosts are the servers of a URL; pgx has one more entry for each way to try one.
func hosts(c *pgconn.Config) []string {
	all := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	for _, f := range c.Fallbacks {
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

func sentinelFor(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return unreachable(err)
	}
	switch pg.Code {
	case "42501": // insufficient_privilege
		return dibs.ErrDenied
	case "3F000", "42P01": // invalid_schema_name, undefined_table
		return dibs.ErrSchema
	case "40001", "40P01", "55P03", "57014": // serialization_failure, deadlock_detected, lock_not_available, query_canceled
		return dibs.ErrUnavailable
	}
	switch pg.Code[:2] {
	case "08", "53", "57", "58", "XX", "25": // connection, resources, operator intervention, system, internal; read-only server
		return dibs.ErrUnavailable
	}
	return nil
}

// unreachable finds errors of the connection; others are errors of the program.
func unreachable(err error) error {
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &connect), errors.As(err, &network), pgconn.SafeToRetry(err),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return dibs.ErrUnavailable
	}
	return nil
}

// lost reports whether a connection has broken, as when the server has failed over to another one, or has crashed and begins anew.
func lost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return hasCode(err, "57P01", "57P02") // admin_shutdown, crash_shutdown
	}
	return unreachable(err) != nil
}

// repeatable reports whether a statement failed only because of concurrent transactions:
// it was rolled back and may be sent again.
func repeatable(err error) bool {
	return hasCode(err, "40001", "40P01", "23505")
}

// isLocked reports whether a statement gave up waiting for a lock.
func isLocked(err error) bool { return hasCode(err, "55P03") } // lock_not_available

// isStopped reports whether a statement was stopped, as by statement_timeout.
func isStopped(err error) bool { return hasCode(err, "57014") } // query_canceled

func hasCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

func hasParam(u, name string) bool {
	if parsed, err := url.Parse(u); err == nil && parsed.Scheme != "" {
		return parsed.Query().Has(name)
	}
	return strings.Contains(u, name+"=")
}
