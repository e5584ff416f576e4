package open

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/session"
	"github.com/dibs-queue/dibs/postgres"
)

// postgresServers are the databases of PostgreSQL servers.
var postgresServers = database{
	names: func(u URL) bool {
		scheme, _, _ := strings.Cut(string(u), ":")
		return scheme == "postgres" || scheme == "postgresql"
	},
	find: findPostgres,
	open: func(ctx context.Context, url string, o Options) (admin.Database, error) {
		db, err := postgres.Open(ctx, withDefaults(url, o), postgres.Options{Schema: o.Schema})
		if err != nil {
			return nil, err
		}
		return db, nil
	},
	sql: func(ctx context.Context, url string, o Options) (*sql.DB, error) {
		db, maxConns, err := session.DB(ctx, withDefaults(url, o))
		if err != nil && db != nil {
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(maxConns)
		return db, nil
	},
	migrate: func(ctx context.Context, url string, o Options) error {
		return postgres.Migrate(ctx, url, postgres.Options{Schema: o.Schema, Migrated: o.Migrated})
	},
	migrations: func(o Options) (string, error) {
		text, err := postgres.Migrations(postgres.Options{Schema: o.Schema}, o.Since)
		if err != nil || text == "" || o.NoTransaction {
			return text, err
		}
		return "begin;\n" + text + "commit;\n", nil
	},
	remove: func(ctx context.Context, url string, o Options) (bool, error) {
		return false, dropSchema(ctx, url, o.Schema)
	},
	named:   func(name string) (Options, string) { return Options{Schema: name}, "PostgreSQL, schema " + name },
	explain: explainPostgres,
	passing: passing,
	away:    away,
}

func findPostgres(u URL, o Options) (string, error) {
	if o.Prefix != "" {
		return "", &Error{
			Problem: "--prefix is for SQLite",
			Next:    "on PostgreSQL, name the schema with --schema",
			Err:     dibs.ErrInvalid,
		}
	}
	server, err := serverURL(u)
	if err != nil {
		return "", &Error{
			Problem: "the PostgreSQL URL cannot be read: " + err.Error(),
			Next:    "write postgres://USER:PASSWORD@HOST:5432/NAME, with special characters of the password as %XX",
			Err:     dibs.ErrInvalid,
		}
	}
	// Without a timeout, a server that does not answer blocks for minutes.
	addParam(server, "connect_timeout", "10")
	return server.String(), nil
}

// withDefaults adds the options Program and Conns to a PostgreSQL URL that does not set
// them itself.
func withDefaults(rawURL string, o Options) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	if o.Program != "" && os.Getenv("PGAPPNAME") == "" {
		addParam(u, "application_name", o.Program)
	}
	if o.Conns > 0 {
		addParam(u, "pool_max_conns", strconv.Itoa(o.Conns))
	}
	return u.String()
}

func dropSchema(ctx context.Context, server, schema string) error {
	conn, err := session.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
	return err
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

// passing reports whether a server has no free connection, or is starting up or shutting down.
func passing(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains([]string{"53300", "57P01", "57P02", "57P03"}, refused.Code)
}

// away reports whether nothing listens at the address, its name is unknown, or connections end or time out before the
// server has said anything.
func away(err error) bool {
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
