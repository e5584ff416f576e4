package open

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/mysql"
)

// mysqlServers are the databases of MariaDB servers. A place is a data source as the driver writes it.
var mysqlServers = database{
	names: namesMySQL,
	find:  findMySQL,
	open: func(ctx context.Context, place string, o Options) (admin.Database, error) {
		db, err := mysql.Open(ctx, place, mysql.Options{Prefix: o.Prefix, MaxConns: o.Conns, Existing: true})
		if err != nil {
			return nil, err
		}
		return db, nil
	},
	sql: func(_ context.Context, place string, o Options) (*sql.DB, error) {
		db, err := openMySQL(place)
		if err == nil {
			db.SetMaxOpenConns(o.Conns)
		}
		return db, err
	},
	migrate: func(ctx context.Context, place string, o Options) error {
		return mysql.Migrate(ctx, place, mysql.Options{Prefix: o.Prefix, Migrated: o.Migrated})
	},
	migrations: func(o Options) (string, error) { return mysql.Migrations(mysql.Options{Prefix: o.Prefix}, o.Since) },
	remove: func(ctx context.Context, place string, o Options) (bool, error) {
		return false, dropMySQLTables(ctx, place, o.Prefix)
	},
	named: func(name string) (Options, string) {
		return Options{Prefix: name + "_"}, "MariaDB, tables " + name + "_*"
	},
	explain: explainMySQL,
	passing: mysqlPassing,
	away:    mysqlAway,
}

var mysqlSchemes = []string{"mysql", "mariadb"}

func namesMySQL(u URL) bool {
	scheme, _, _ := strings.Cut(string(u), ":")
	return slices.Contains(mysqlSchemes, scheme)
}

// mysqlForm is how the URL of a MariaDB database is written.
const mysqlForm = "write mysql://USER:PASSWORD@HOST:3306/NAME, with special characters of the password as %XX"

// findMySQL turns a URL into a data source. Its parameters are the driver's.
func findMySQL(u URL, o Options) (string, error) {
	wrong := func(problem, next string) (string, error) {
		return "", &Error{Problem: problem, Next: next, Err: dibs.ErrInvalid}
	}
	if o.Schema != "" {
		return wrong("--schema is for PostgreSQL", "on MariaDB, choose the prefix of the tables' names with --prefix")
	}
	server, err := serverURL(u)
	if err != nil {
		return wrong("the MariaDB URL cannot be read: "+err.Error(), mysqlForm)
	}
	name := strings.TrimPrefix(server.Path, "/")
	if name == "" {
		return wrong("the MariaDB URL names no database", mysqlForm)
	}
	config := driver.NewConfig()
	config.User = server.User.Username()
	config.Passwd, _ = server.User.Password()
	config.Net, config.DBName = "tcp", name
	if config.Addr = server.Host; server.Host == "" {
		config.Addr = "127.0.0.1"
	}
	config.Timeout = 10 * time.Second // without it, a server that does not answer blocks for minutes
	place := config.FormatDSN()
	if server.RawQuery != "" {
		place += "&" + server.RawQuery // the driver takes the last of each
	}
	if _, err := driver.ParseDSN(place); err != nil {
		return wrong("the parameters of the MariaDB URL cannot be read", "the names after the ? are those of the Go driver, such as tls=true")
	}
	return place, nil
}

// openMySQL opens a pool that is not a store's.
func openMySQL(place string) (*sql.DB, error) {
	config, err := driver.ParseDSN(place)
	if err != nil {
		return nil, err
	}
	delete(config.Params, "pool_max_conns")
	return sql.OpenDB(&anyHost{config: config}), nil
}

// anyHost connects to the first server of a data source that answers. The data source may name several of one cluster.
type anyHost struct{ config *driver.Config }

func (a *anyHost) Connect(ctx context.Context) (conn sqldriver.Conn, err error) {
	for _, host := range mysql.Hosts(a.config.Addr) {
		one := a.config.Clone()
		one.Addr = host
		connector, wrong := driver.NewConnector(one)
		if wrong != nil {
			return nil, wrong
		}
		if conn, err = connector.Connect(ctx); err == nil || !mysqlAway(err) {
			break
		}
	}
	return conn, err
}

func (*anyHost) Driver() sqldriver.Driver { return driver.MySQLDriver{} }

// dropMySQLTables drops the tables and views with the prefix.
func dropMySQLTables(ctx context.Context, place, prefix string) error {
	db, err := openMySQL(place)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "select table_type, table_name from information_schema.tables where table_schema = database() and left(table_name, char_length(?)) = ? order by table_type = 'VIEW' desc", prefix, prefix)
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
		what := "table"
		if kind == "VIEW" {
			what = "view"
		}
		drops = append(drops, "drop "+what+" `"+strings.ReplaceAll(name, "`", "``")+"`")
	}
	err = rows.Err()
	for _, drop := range drops {
		if err == nil {
			_, err = db.ExecContext(ctx, drop)
		}
	}
	return err
}

func mysqlCode(err error) uint16 {
	var refused *driver.MySQLError
	if errors.As(err, &refused) {
		return refused.Number
	}
	return 0
}

// refusal is what the server says of a privilege that a user lacks.
func refusal(err error) string {
	var refused *driver.MySQLError
	if errors.As(err, &refused) {
		_, text, ok := strings.Cut(refused.Message, "; ")
		if ok {
			return text
		}
	}
	return "a privilege is lacking"
}

// mysqlPassing reports whether a server has no free connection, or is shutting down.
func mysqlPassing(err error) bool { return slices.Contains([]uint16{1040, 1203, 1053}, mysqlCode(err)) }

// mysqlAway reports whether nothing listens at the address, its name is unknown, or connections end before the server has
// said anything. An error of this process' own listening is none of these.
func mysqlAway(err error) bool {
	if mysqlCode(err) != 0 || errors.Is(err, context.Canceled) {
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op != "listen" || errors.As(err, new(*net.DNSError)) || errors.Is(err, driver.ErrInvalidConn) || errors.Is(err, io.EOF)
}

func explainMySQL(u URL, err error) *Error {
	if !namesMySQL(u) {
		return nil
	}
	server, parseErr := serverURL(u)
	if parseErr != nil {
		return nil
	}
	switch n := mysqlCode(err); {
	case errors.Is(err, mysql.ErrNoTables):
		return &Error{
			Problem: "there are no tables of dibs in the database " + strings.TrimPrefix(server.Path, "/"),
			Next:    "'dibs migrate' makes them; to work on a table of your own, give --table MAPPING",
			Err:     err,
		}
	case n == 1044, n == 1045, n == 1698:
		return &Error{
			Problem: fmt.Sprintf("%s refuses user %q: wrong password or no access to the database", host(u), server.User.Username()),
			Next:    "check user and password in --db or $DIBS_DB (special characters as %XX)",
		}
	case n == 1227:
		return &Error{
			Problem: fmt.Sprintf("the user %q may not see them: %s; as root: grant process on *.* to '%s'@'%%'", server.User.Username(), refusal(err), server.User.Username()),
			Next:    "docs/operations.md says which privileges a user needs",
		}
	case n == 1049:
		return &Error{
			Problem: fmt.Sprintf("%s has no database %q", host(u), strings.TrimPrefix(server.Path, "/")),
			Next:    "make it with create database, or name another with --db or $DIBS_DB",
		}
	case mysqlPassing(err):
		return &Error{
			Problem: "the MariaDB server takes no connection now: " + err.Error(),
			Next:    "wait a moment and try again; use fewer processes, or raise max_connections",
		}
	case mysqlAway(err):
		return &Error{
			Problem: "no MariaDB server answers at " + host(u),
			Next:    "check host and port in --db or $DIBS_DB, and that the server runs and may be reached from here",
		}
	}
	return nil
}

// isMySQL reports whether a parsed URL is of a MariaDB database.
func isMySQL(u *url.URL) bool { return slices.Contains(mysqlSchemes, u.Scheme) }
