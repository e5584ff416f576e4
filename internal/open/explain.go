package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/jackc/pgx/v5/pgconn"
)

// Error is a problem with the database, and what to do next. It unwraps to the
// database's error, or to one of the errors of package dibs.
type Error struct {
	Problem string
	Next    string
	Err     error
}

func (e *Error) Error() string { return e.Problem }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Explain turns an error of the database at u into an [*Error] if it knows the problem,
// and returns other errors, and nil, unchanged.
func Explain(u URL, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	// Error codes decide, not texts.
	var sqlite interface{ Code() int }
	if errors.As(err, &sqlite) {
		if e := explainSQLite(u, sqlite.Code(), err); e != nil {
			if e.Err == nil {
				e.Err = unavailable(err)
			}
			return e
		}
	}
	if e := explainPostgres(u, err); e != nil {
		if e.Err == nil {
			e.Err = unavailable(err)
		}
		return e
	}
	if errors.Is(err, dibs.ErrSchema) {
		// The store's error says what is missing; the sentinel's text adds nothing, and Next says
		// what is to be run.
		problem := strings.TrimSuffix(strings.Replace(err.Error(), dibs.ErrSchema.Error()+": ", "", 1), ": "+dibs.ErrSchema.Error())
		return &Error{
			Problem: strings.TrimSuffix(problem, "; run `dibs migrate`"),
			Next:    "'dibs migrate' makes or updates a schema, and its --print shows the SQL; a newer schema needs a newer dibs",
			Err:     err,
		}
	}
	return err
}

func unavailable(err error) error {
	if errors.Is(err, dibs.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
}

// Primary result codes of SQLite for problems with the file.
const (
	sqliteBusy     = 5
	sqliteReadonly = 8
	sqliteIOErr    = 10
	sqliteCorrupt  = 11
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

func explainSQLite(u URL, code int, err error) *Error {
	path, _ := sqlitePath(u)
	switch code & 0xff {
	case sqliteBusy:
		return &Error{
			Problem: "another process holds the write lock of " + path + " for too long",
			Next:    "try again; look for a program that keeps a transaction open on it",
		}
	case sqliteReadonly:
		return &Error{
			Problem: path + " is read-only",
			Next:    "give this user the right to write the file and its folder, or name another with --db",
		}
	case sqliteIOErr:
		return &Error{
			Problem: "reading or writing " + path + " failed",
			Next:    "check the disk; SQLite needs a local one, not a network share",
		}
	case sqliteCorrupt:
		return &Error{
			Problem: path + " is damaged",
			Next:    "restore it from a backup, or save what can be read: sqlite3 " + path + " .recover",
			Err:     err,
		}
	case sqliteFull:
		return &Error{
			Problem: "the disk with " + path + " is full; nothing was written",
			Next:    "free some space there and try again",
		}
	case sqliteCantOpen:
		return &Error{
			Problem: path + " cannot be opened",
			Next:    "check that the folder exists and that this user may write in it",
		}
	case sqliteNotADB:
		return &Error{
			Problem: path + " is not a SQLite database",
			Next:    "name another file with --db or $DIBS_DB",
			Err:     fmt.Errorf("%w: %w", dibs.ErrInvalid, err),
		}
	}
	return nil
}

func explainPostgres(u URL, err error) *Error {
	var denied *postgres.DeniedError
	if errors.As(err, &denied) && len(denied.Grants) > 0 {
		problem := "the role " + denied.Role + " lacks a right of a worker"
		if denied.Err != nil {
			problem = "the role " + denied.Role + " lacks a right: " + denied.Err.Error()
		}
		return &Error{Problem: problem, Next: "have the owner of the schema run, for a role that works: " + strings.Join(denied.Grants, "; ") + "; for one that only reads or enqueues: docs/operations.md", Err: err}
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return explainRefusal(u, refused)
	}
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return &Error{
			Problem: "the PostgreSQL URL cannot be read",
			Next:    "write postgres://USER:PASSWORD@HOST:5432/NAME?sslmode=…, with special characters as %XX",
			Err:     fmt.Errorf("%w: %w", dibs.ErrInvalid, err),
		}
	}
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return nil
	}
	problem := "no PostgreSQL server answers at " + host(u)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return &Error{
		Problem: problem,
		Next:    "check host and port in --db or $DIBS_DB, and that the server runs and may be reached from here",
	}
}

func explainRefusal(u URL, e *pgconn.PgError) *Error {
	config, err := pgconn.ParseConfig(u.Reveal()) // ParseConfig also reads the environment
	if err != nil {
		return nil
	}
	switch e.Code {
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return &Error{
			Problem: fmt.Sprintf("%s refuses user %q: wrong password or no access", host(u), config.User),
			Next:    "check user and password in --db or $DIBS_DB (special characters as %XX), or use PGPASSWORD or ~/.pgpass",
		}
	case "3D000": // invalid_catalog_name
		return &Error{
			Problem: fmt.Sprintf("%s has no database %q", host(u), cmp.Or(config.Database, config.User)),
			Next:    "make it with createdb, or name another with --db or $DIBS_DB",
		}
	case "42501": // insufficient_privilege
		return &Error{
			Problem: "the database user lacks a right: " + e.Message,
			Next:    "have it granted (docs/operations.md has the grants of each role); 'dibs migrate --print' is the SQL of the schema, for somebody who may make one",
			Err:     e,
		}
	case "53100": // disk_full
		return &Error{
			Problem: "the disk of the PostgreSQL server is full; nothing was written",
			Next:    "free some space there and try again",
		}
	case "53300": // too_many_connections
		return &Error{
			Problem: "the PostgreSQL server has no free connection",
			Next:    "use fewer processes, raise max_connections, or put a pooler in front of it",
		}
	case "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
		return &Error{
			Problem: "the PostgreSQL server is starting up or shutting down",
			Next:    "wait a moment and try again",
		}
	case "57014": // query_canceled
		return &Error{
			Problem: "the PostgreSQL server has stopped a statement: " + e.Message,
			Next:    "if statement_timeout did it, allow dibs more: alter role NAME set statement_timeout = '1min'",
		}
	case "55P03": // lock_not_available
		return &Error{
			Problem: "the PostgreSQL server has stopped waiting for a lock: " + e.Message,
			Next:    "try again; if lock_timeout is set for the role or the database, allow dibs more: alter role NAME set lock_timeout = '10s'",
		}
	case "25P03", "25P04": // idle_in_transaction_session_timeout, transaction_timeout
		return &Error{
			Problem: "the PostgreSQL server has ended a transaction: " + e.Message,
			Next:    "raise idle_in_transaction_session_timeout and transaction_timeout for dibs, with alter role NAME set …",
		}
	case "42P05", "26000", "08P01": // duplicate_prepared_statement, invalid_sql_statement_name, protocol_violation
		return &Error{
			Problem: "a pooler in transaction mode seems to be in front of the PostgreSQL server: " + e.Message,
			Next:    "say so with --pooler, or ?pooler=transaction in the URL",
			Err:     e,
		}
	case "25006": // read_only_sql_transaction
		return &Error{
			Problem: checks.ReadOnlyServer,
			Next:    "name the primary server with --db or $DIBS_DB; or, if this is it: alter role NAME set default_transaction_read_only = off",
		}
	}
	return nil
}

// Passing reports whether a PostgreSQL server refused a connection for a reason that
// passes by itself: it has no free connection, or is starting up or shutting down.
func Passing(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains([]string{"53300", "57P01", "57P02", "57P03"}, refused.Code)
}

// Away reports whether no PostgreSQL server answers: nothing listens at the address, its name is unknown, or connections end
// or time out before the server has said anything. Each of these may be so while a server is being started.
func Away(err error) bool {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) || errors.As(err, new(*pgconn.PgError)) || errors.Is(err, context.Canceled) {
		return false
	}
	return errors.As(err, new(*net.OpError)) || errors.As(err, new(*net.DNSError)) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func host(u URL) string {
	server, err := serverURL(u)
	if err != nil || server.Host == "" {
		return "the server"
	}
	return server.Host
}
