// Package session makes the connections to PostgreSQL that are dibs' own such that what
// is set for a server, a database or a role does not change what dibs reads and writes,
// and such that behind a pooler nothing is set that another client would meet.
package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-queue/dibs"
)

// Pooler is what stands between the program and the server, as the parameter pooler of a
// URL says.
type Pooler string

const (
	// Unknown has every connection find out whether there is a pooler.
	Unknown Pooler = ""
	// Transactions is a pooler that gives each transaction another connection to the
	// server: what a session holds (settings, prepared statements, LISTEN) is of no use.
	Transactions Pooler = "transaction"
	// Sessions is a pooler that keeps a connection for a session.
	Sessions Pooler = "session"
)

// ErrPooler is why a connection of a pool with Setup is refused: there is a pooler.
var ErrPooler = errors.New("a pooler stands before the server")

// needed are settings that a connection is asked for with: poolers know them to be a
// client's own, too.
var needed = map[string]string{"client_encoding": "UTF8", "standard_conforming_strings": "on"}

// exact are settings by which what dibs reads and writes as text has one form only.
var exact = []Setting{{"DateStyle", "ISO, MDY"}, {"TimeZone", "UTC"}, {"extra_float_digits", "1"}, {"array_nulls", "on"}}

// Parse reads how to connect from a URL, or from words such as "host=… dbname=…".
func Parse(url string) (*pgxpool.Config, Pooler, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, "", err
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
	return c, pooler, nil
}

// Setting is a name and a value.
type Setting struct{ Name, Value string }

// InTransaction is the SQL that gives settings to the transaction that it runs in, and with
// them what every text that dibs reads and writes there depends on.
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

// keepMemory has the server's process keep up to 2 MiB of the memory that a statement frees.
// With the GNU C library it else gives memory back to the system after many a statement, and
// the next one pays for getting it again: a fifth of the time of a COPY of 1,000 jobs
// (docs/design/0006-bulk.md). That library keeps twice the size of the largest block that
// was mapped by itself and freed; mallopt(3) tells of it under M_MMAP_THRESHOLD.
const keepMemory = "pg_catalog.octet_length(pg_catalog.repeat('-', 1048576))"

// SetUp gives a new connection settings for as long as it lives, besides those that all of
// dibs' own have. Where it finds a pooler of which it was not told, it sets nothing and
// returns ErrPooler: the number of the process that the server tells is not the one that
// the connection was greeted with then.
func SetUp(ctx context.Context, conn *pgx.Conn, pooler Pooler, settings ...Setting) error {
	own := []Setting{{"search_path", "pg_catalog, pg_temp"}, {"default_transaction_isolation", "read committed"}}
	text := "select " + calls(slices.Concat(own, exact, settings), false) + `,
		case when pg_catalog.current_setting('idle_session_timeout', true) is not null then pg_catalog.set_config('idle_session_timeout', '0', false) end,
		` + keepMemory
	results, err := conn.PgConn().Exec(ctx, text+where(conn, pooler)).ReadAll()
	if err == nil && len(results[0].Rows) == 0 {
		err = ErrPooler
	}
	return err
}

// where is the condition that no pooler stands before the server, unless its kind is known.
func where(conn *pgx.Conn, pooler Pooler) string {
	if pooler != Unknown {
		return ""
	}
	return fmt.Sprintf(" where pg_catalog.pg_backend_pid() operator(pg_catalog.=) %d", conn.PgConn().PID())
}

// Connect opens one connection that is dibs' own, for statements that no pooler minds.
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

// DB opens the database at url for statements of database/sql, which keep the session's
// own search_path, and returns how many connections the URL allows. With an error of the
// connection comes the database too, for later.
func DB(ctx context.Context, url string) (*sql.DB, int, error) { return openDB(ctx, url, direct) }

// OwnDB is DB for statements of dibs' own alone.
func OwnDB(ctx context.Context, url string) (*sql.DB, int, error) {
	return openDB(ctx, url, func(ctx context.Context, conn *pgx.Conn, pooler Pooler) error { return SetUp(ctx, conn, pooler) })
}

// direct returns ErrPooler where it finds a pooler of which it was not told.
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

// lost says whether a connection was made and ended while it was being set up: it is
// neither the server nor the caller that said no.
func lost(err error) bool {
	return err != nil && !errors.As(err, new(*pgconn.PgError)) && !errors.As(err, new(*pgconn.ConnectError)) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
