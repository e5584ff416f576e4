package open

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlserver"
)

// sqlServers are the databases of SQL Server. A place is a URL as the driver takes it.
var sqlServers = database{
	names: namesSQLServer,
	find:  findSQLServer,
	open: func(ctx context.Context, place string, o Options) (admin.Database, error) {
		db, err := sqlserver.Open(ctx, place, sqlserver.Options{Prefix: o.Prefix, MaxConns: o.Conns, Existing: true})
		if err != nil {
			return nil, err
		}
		return db, nil
	},
	sql: func(_ context.Context, place string, o Options) (*sql.DB, error) {
		return openSQLServer(place, o.Conns)
	},
	migrate: func(ctx context.Context, place string, o Options) error {
		return sqlserver.Migrate(ctx, place, sqlserver.Options{Prefix: o.Prefix, Migrated: o.Migrated})
	},
	migrations: func(o Options) (string, error) {
		return sqlserver.Migrations(sqlserver.Options{Prefix: o.Prefix}, o.Since)
	},
	remove: func(ctx context.Context, place string, o Options) (bool, error) {
		return false, dropSQLServerTables(ctx, place, o.Prefix)
	},
	named: func(name string) (Options, string) {
		return Options{Prefix: name + "_"}, "SQL Server, tables " + name + "_*"
	},
	explain: explainSQLServer,
	passing: sqlServerPassing,
	away:    sqlServerAway,
}

const sqlServerScheme = "sqlserver"

func namesSQLServer(u URL) bool {
	scheme, _, _ := strings.Cut(string(u), ":")
	return scheme == sqlServerScheme
}

// sqlServerForm is how the URL of a database of SQL Server is written.
const sqlServerForm = "write sqlserver://USER:PASSWORD@HOST:1433?database=NAME, with special characters of the password as %XX"

// findSQLServer checks a URL. Its parameters, and an instance as its path, are the driver's.
func findSQLServer(u URL, o Options) (string, error) {
	wrong := func(problem, next string) (string, error) {
		return "", &Error{Problem: problem, Next: next, Err: dibs.ErrInvalid}
	}
	if o.Schema != "" {
		return wrong("--schema is for PostgreSQL", "on SQL Server, choose the prefix of the tables' names with --prefix; they are in the user's default schema")
	}
	server, err := serverURL(u)
	if err != nil {
		return wrong("the SQL Server URL cannot be read: "+err.Error(), sqlServerForm)
	}
	if databaseOf(server) == "" {
		return wrong("the SQL Server URL names no database", sqlServerForm)
	}
	if _, err := mssql.NewConnector(server.String()); err != nil {
		return wrong("the parameters of the SQL Server URL cannot be read", "the names after the ? are those of the Go driver, such as encrypt=true")
	}
	return server.String(), nil
}

// databaseOf is the name of the database in a URL; the driver ignores the case of its parameters' names.
func databaseOf(u *url.URL) string {
	for name, values := range u.Query() {
		if strings.EqualFold(name, "database") && len(values) > 0 {
			return values[len(values)-1]
		}
	}
	return ""
}

// openSQLServer opens a pool that is not a store's.
func openSQLServer(place string, conns int) (*sql.DB, error) {
	connector, err := mssql.NewConnector(place)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	return db, nil
}

// dropSQLServerTables drops the tables, the views and the sequence with the prefix in the user's default schema.
func dropSQLServerTables(ctx context.Context, place, prefix string) error {
	db, err := openSQLServer(place, 0)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `select case o.type when 'V' then 'view' when 'U' then 'table' else 'sequence' end, o.name
		from sys.objects o
		where o.type in ('V', 'U', 'SO') and o.schema_id = schema_id() and left(o.name, len(@p1)) = @p1
		order by case o.type when 'V' then 0 when 'U' then 1 else 2 end`, prefix)
	if err != nil {
		return err
	}
	defer rows.Close()
	var drops []string
	for rows.Next() {
		var kind, name string
		if err := rows.Scan(&kind, &name); err != nil {
			return err
		}
		drops = append(drops, "drop "+kind+" ["+strings.ReplaceAll(name, "]", "]]")+"]")
	}
	err = rows.Err()
	for _, drop := range drops {
		if err == nil {
			_, err = db.ExecContext(ctx, drop)
		}
	}
	return err
}

func sqlServerCode(err error) int32 {
	var refused mssql.Error
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// sqlServerPassing reports whether a server has no free session, or is starting, paused or moving.
func sqlServerPassing(err error) bool {
	return slices.Contains([]int32{10928, 10929, 17142, 17187, 40197, 40501, 40613, 49918, 49919, 49920}, sqlServerCode(err))
}

// sqlServerAway reports whether nothing listens at the address, its name is unknown, or connections end before the server has
// said anything.
func sqlServerAway(err error) bool {
	if sqlServerCode(err) != 0 || errors.Is(err, context.Canceled) {
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op != "listen" || errors.As(err, new(*net.DNSError)) || errors.Is(err, io.EOF)
}

func explainSQLServer(u URL, err error) *Error {
	if !namesSQLServer(u) {
		return nil
	}
	server, parseErr := serverURL(u)
	if parseErr != nil {
		return nil
	}
	name := databaseOf(server)
	switch n := sqlServerCode(err); {
	case errors.Is(err, sqlserver.ErrNoTables):
		return &Error{
			Problem: "there are no tables of dibs in the database " + name,
			Next:    "'dibs migrate' makes them; to work on a table of your own, give --table MAPPING",
			Err:     err,
		}
	case n == 18456 || n == 18452 || n == 18470:
		return &Error{
			Problem: fmt.Sprintf("%s refuses user %q: wrong password, or it may not log in", host(u), server.User.Username()),
			Next:    "check user and password in --db or $DIBS_DB (special characters as %XX)",
		}
	case n == 4060:
		return &Error{
			Problem: fmt.Sprintf("%s has no database %q, it is not open, or user %q may not use it", host(u), name, server.User.Username()),
			Next:    "make it with create database, or name another with --db or $DIBS_DB",
		}
	case sqlServerPassing(err):
		return &Error{
			Problem: "the SQL Server takes no connection now: " + err.Error(),
			Next:    "wait a moment and try again; use fewer processes, or a larger service tier",
		}
	case sqlServerAway(err):
		return &Error{
			Problem: "no SQL Server answers at " + host(u),
			Next:    "check host and port in --db or $DIBS_DB, and that the server runs and may be reached from here",
		}
	}
	return nil
}
