// Package session sets up dibs' own connections to PostgreSQL: settings of the server, the
// database or the role must not change what dibs reads and writes, and behind a pooler no
// setting may stay for another client.
package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs"
)

// Pooler is the kind of pooler between the program and the server, as the URL's parameter
// pooler names it.
type Pooler string

const (
	// Unknown: every new connection finds out whether there is a pooler.
	Unknown Pooler = ""
	// Transactions: each transaction may get another connection to the server, so settings,
	// prepared statements and LISTEN do not last.
	Transactions Pooler = "transaction"
	// Sessions: a session keeps its connection to the server.
	Sessions Pooler = "session"
)

// ErrPooler: there is a pooler that the URL does not name.
var ErrPooler = errors.New("a pooler stands before the server")

// needed are settings in the request for a connection: poolers keep these for each client.
var needed = map[string]string{"client_encoding": "UTF8", "standard_conforming_strings": "on"}

// exact are settings that fix the text form of all values that dibs reads and writes.
var exact = []Setting{{"DateStyle", "ISO, MDY"}, {"TimeZone", "UTC"}, {"extra_float_digits", "1"}, {"array_nulls", "on"}}

// Parse reads a URL, or words such as "host=… dbname=…".
func Parse(url string) (*pgxpool.Config, Pooler, error) {
	if ambiguous(url) {
		return nil, "", &dibs.InvalidError{Field: "database URL", Reason: "has an @ after a /; in a name or a password they are written as %40 and %2F"}
	}
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, "", &dibs.InvalidError{Field: "database URL", Reason: plainParseError(err)}
	}
	params := c.ConnConfig.RuntimeParams
	pooler := Pooler(params["pooler"])
	if !slices.Contains([]Pooler{Unknown, Transactions, Sessions}, pooler) {
		return nil, "", &dibs.InvalidError{Field: "pooler", Reason: fmt.Sprintf("in the database URL must be transaction or session, got %.40q", string(pooler))}
	}
	delete(params, "pooler")
	for name, value := range needed {
		for given := range params {
			if strings.EqualFold(given, name) {
				delete(params, given)
			}
		}
		params[name] = value
	}
	if pooler == Transactions {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	c.ConnConfig.DialFunc = dialer.DialContext
	return c, pooler, nil
}

// plainParseError keeps passwords out of the message: the errors of pgx about words such
// as "host=h password=a b", and those of net/url, can quote a part of one.
func plainParseError(err error) string {
	const form = "it has the form postgres://user:password@host:5432/database"
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && errors.Unwrap(parse) != nil && !errors.As(err, new(*url.Error)) {
		if scheme, _, _ := strings.Cut(parse.ConnString, "://"); scheme == "postgres" || scheme == "postgresql" {
			return "cannot be parsed: " + errors.Unwrap(parse).Error() + "; " + form
		}
	}
	return "cannot be parsed; " + form
}

// ambiguous reports whether a / may be part of a password. A parser ends the host there, takes the beginning of the password
// for it, and names it in errors.
func ambiguous(url string) bool {
	_, rest, isURL := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	return isURL && !strings.Contains(host, "@") && strings.Contains(path, "@")
}

// lostAfter is how long the other end of a connection may be gone until the system finds out.
const lostAfter = 30 * time.Second

// dialer has the system ask whether the other end is there where a connection is idle, and give a connection up if what was
// sent over it is not confirmed.
var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: lostAfter / 2, Interval: lostAfter / 6, Count: 3},
	ControlContext:  giveUpUnconfirmed,
}

// Setting is a name and a value.
type Setting struct{ Name, Value string }

// InTransaction is the SQL that makes settings for the current transaction, together with
// those that fix the form of texts.
func InTransaction(settings []Setting) string {
	all := slices.Concat([]Setting{{"client_encoding", needed["client_encoding"]}}, exact, settings)
	return "select " + calls(all, true)
}

func calls(settings []Setting, local bool) string {
	all := make([]string, len(settings))
	for i, s := range settings {
		all[i] = fmt.Sprintf("pg_catalog.set_config('%s', '%s', %t)", s.Name, s.Value, local)
	}
	return strings.Join(all, ", ")
}

// SetUp makes settings for the life of a new connection, besides those of all dibs'
// connections. If it finds a pooler although pooler is Unknown, it sets nothing and returns
// ErrPooler: behind a pooler pg_backend_pid() differs from the process id in the greeting.
func SetUp(ctx context.Context, conn *pgx.Conn, pooler Pooler, settings ...Setting) error {
	own := []Setting{{"search_path", "pg_catalog, pg_temp"}, {"default_transaction_isolation", "read committed"}}
	text := "select " + calls(slices.Concat(own, exact, settings), false) + `,
		case when pg_catalog.current_setting('idle_session_timeout', true) is not null then pg_catalog.set_config('idle_session_timeout', '0', false) end`
	results, err := conn.PgConn().Exec(ctx, text+where(conn, pooler)).ReadAll()
	if err == nil && len(results[0].Rows) == 0 {
		err = ErrPooler
	}
	return err
}

// where is the condition that there is no pooler, or empty if its kind is known.
func where(conn *pgx.Conn, pooler Pooler) string {
	if pooler != Unknown {
		return ""
	}
	return fmt.Sprintf(" where pg_catalog.pg_backend_pid() operator(pg_catalog.=) %d", conn.PgConn().PID())
}

// Connect opens one connection of dibs' own, for statements that work behind any pooler.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	c, _, err := Parse(url)
	if err != nil {
		return nil, err
	}
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return nil, err
	}
	if err := SetUp(ctx, conn, Unknown); err != nil && !errors.Is(err, ErrPooler) {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// DB opens the database at url for statements of database/sql, with the session's own
// search_path, and returns how many connections the URL allows. If it cannot connect, it
// returns the database with the error, for later use.
func DB(ctx context.Context, url string) (*sql.DB, int, error) { return openDB(ctx, url, direct) }

// OwnDB is DB for statements of dibs' own alone.
func OwnDB(ctx context.Context, url string) (*sql.DB, int, error) {
	return openDB(ctx, url, func(ctx context.Context, conn *pgx.Conn, pooler Pooler) error { return SetUp(ctx, conn, pooler) })
}

// direct returns ErrPooler if it finds a pooler although pooler is Unknown.
func direct(ctx context.Context, conn *pgx.Conn, pooler Pooler) error {
	results, err := conn.PgConn().Exec(ctx, "select"+where(conn, pooler)).ReadAll()
	if err == nil && len(results[0].Rows) == 0 {
		err = ErrPooler
	}
	return err
}

func openDB(ctx context.Context, url string, setUp func(context.Context, *pgx.Conn, Pooler) error) (*sql.DB, int, error) {
	c, pooler, err := Parse(url)
	if err != nil {
		return nil, 0, err
	}
	if pooler == Transactions {
		setUp = func(context.Context, *pgx.Conn, Pooler) error { return nil }
	}
	db := stdlib.OpenDB(*c.ConnConfig, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error { return setUp(ctx, conn, pooler) }))
	err = db.PingContext(ctx)
	if errors.Is(err, ErrPooler) {
		_ = db.Close() // it has no connection
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		db = stdlib.OpenDB(*c.ConnConfig)
		err = db.PingContext(ctx)
	}
	if lost(err) {
		err = fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	}
	return db, int(c.MaxConns), err
}

// lost reports whether a connection was made and then broke while it was being set up:
// neither the server nor the caller refused it.
func lost(err error) bool {
	return err != nil && !errors.As(err, new(*pgconn.PgError)) && !errors.As(err, new(*pgconn.ConnectError)) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
