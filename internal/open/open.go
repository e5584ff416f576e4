// Package open opens the database that a URL names, and explains in plain words why it
// cannot be used.
package open

import (
	"context"
	"database/sql"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Default is the database that is used when none is named.
const Default = URL("sqlite:dibs.db")

// Options choose the schema or the prefix of the tables, and how to connect.
type Options struct {
	Schema string // PostgreSQL only: the schema; default "dibs"
	Prefix string // SQLite, MariaDB and SQL Server: prefix of the tables' names; default "dibs_"
	// Program is the application_name on a PostgreSQL server, unless the URL or $PGAPPNAME
	// gives another.
	Program string
	// Conns is the largest number of connections to a PostgreSQL server, besides one for
	// wake-ups; pool_max_conns in the URL overrides it. 0: the store's default.
	Conns int
	// Migrate calls Migrated after each migration: see postgres.Options.
	Migrated func(version int, names []string)
	// Since makes Migrations leave out the migrations up to this version; NoTransaction,
	// the begin and commit around them.
	Since         int
	NoTransaction bool
	// Existing refuses a SQLite file that does not exist or has no tables of dibs. Without
	// it they are created.
	Existing bool
}

// Database opens the database at u:
//
//	sqlite:PATH, or a PATH that ends in .db, .sqlite or .sqlite3
//	postgres://USER:PASSWORD@HOST:PORT/NAME, also postgresql://
//	mysql://USER:PASSWORD@HOST:PORT/NAME, also mariadb://
//	sqlserver://USER:PASSWORD@HOST:PORT?database=NAME
//
// It creates the schema in a SQLite file that has no tables at all; elsewhere, Migrate does.
// Errors are of type [*Error] if package open knows what to do about them.
func Database(ctx context.Context, u URL, o Options) (admin.Database, error) {
	t, err := find(u, o)
	if err != nil {
		return nil, err
	}
	db, err := t.open(ctx, t.place, o)
	return db, Explain(u, err)
}

// SQL opens the database at u with database/sql, whether or not it has tables of dibs. A
// SQLite file must exist.
func SQL(ctx context.Context, u URL, o Options) (*sql.DB, error) {
	t, err := find(u, o)
	if err != nil {
		return nil, err
	}
	db, err := t.sql(ctx, t.place, o)
	return db, Explain(u, err)
}

// Migrate brings the schema of the database at u up to this version.
func Migrate(ctx context.Context, u URL, o Options) error {
	t, err := find(u, o)
	if err != nil {
		return err
	}
	return Explain(u, t.migrate(ctx, t.place, o))
}

// Migrations is the SQL that Migrate would run on an empty database at u. It
// does not connect.
func Migrations(u URL, o Options) (string, error) {
	t, err := find(u, o)
	if err != nil {
		return "", err
	}
	return t.migrations(o)
}

// Remove drops the schema of the options, or on SQLite the tables and views of their prefix.
// It reports whether the SQLite file is then empty.
func Remove(ctx context.Context, u URL, o Options) (empty bool, err error) {
	t, err := find(u, o)
	if err != nil {
		return false, err
	}
	return t.remove(ctx, t.place, o)
}

// Named returns options by which the tables of dibs at u are others than the usual ones, with a name in theirs, and what
// to call them. It does not connect.
func Named(u URL, name string) (o Options, text string, err error) {
	t, err := find(u, Options{})
	if err != nil {
		return o, "", err
	}
	o, text = t.named(name)
	return o, text, nil
}

// Place returns the path of the file that u names, whose folder exists. For a server it returns
// the URL of the database, with a connect_timeout. It does not connect.
func Place(u URL) (path, server string, err error) {
	t, err := find(u, Options{})
	switch {
	case err != nil:
		return "", "", err
	case t.file:
		return t.place, "", checkFile(t.place, false)
	}
	return "", t.place, nil
}

// IsMariaDB reports whether u names a database of a MariaDB server.
func IsMariaDB(u URL) bool { return namesMySQL(u) }

// IsSQLServer reports whether u names a database of SQL Server.
func IsSQLServer(u URL) bool { return namesSQLServer(u) }

// Absolute returns a URL that names the same database from any folder.
func Absolute(u URL) URL {
	path, ok := sqlitePath(u)
	if !ok {
		return u
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return URL("sqlite:" + path)
}

// Passing reports whether a server refused a connection for a reason that passes by itself: it has no free connection, or
// is starting up or shutting down.
func Passing(err error) bool {
	return slices.ContainsFunc(databases(), func(d *database) bool { return d.passing != nil && d.passing(err) })
}

// Away reports whether no server answers. It may be so while one is being started.
func Away(err error) bool {
	return slices.ContainsFunc(databases(), func(d *database) bool { return d.away != nil && d.away(err) })
}

// database is a kind of database. A place, which find makes of a URL, is a file's path or a URL as the driver takes it.
type database struct {
	file  bool             // a place is a file's path
	names func(u URL) bool // whether u names such a database
	find  func(u URL, o Options) (place string, err error)
	open  func(ctx context.Context, place string, o Options) (admin.Database, error)
	sql   func(ctx context.Context, place string, o Options) (*sql.DB, error)

	migrate    func(ctx context.Context, place string, o Options) error
	migrations func(o Options) (string, error)
	remove     func(ctx context.Context, place string, o Options) (empty bool, err error)

	named   func(name string) (o Options, text string) // see Named
	explain func(u URL, err error) *Error              // nil: it does not know the error
	passing func(err error) bool                       // see Passing; nil: no error passes by itself
	away    func(err error) bool                       // see Away; nil: it has no server
}

// databases lists all kinds. A URL belongs to the first that says so.
func databases() []*database {
	return []*database{&sqliteFiles, &postgresServers, &mysqlServers, &sqlServers}
}

// target is a database that a URL names.
type target struct {
	*database
	place string
}

func find(u URL, o Options) (target, error) {
	for _, d := range databases() {
		if d.names(u) {
			place, err := d.find(u, o)
			return target{d, place}, err
		}
	}
	return target{}, unknown(u)
}

var (
	otherScheme = regexp.MustCompile(`^[a-z]{2,12}$`)
	fileName    = regexp.MustCompile(`^[\w-]{1,40}\.[a-z0-9]{1,8}$`)
)

// unknown shows at most the scheme of the URL, since the rest may hold a password anywhere, or what
// can only be the name of a file.
func unknown(u URL) error {
	problem := "unknown kind of database"
	if scheme, _, ok := strings.Cut(string(u), "://"); ok && otherScheme.MatchString(scheme) {
		problem += ": " + scheme
	}
	if fileName.MatchString(string(u)) {
		return &Error{
			Problem: problem + ": " + string(u),
			Next:    "for a SQLite file of that name write sqlite:" + string(u) + ", in --db or $DIBS_DB",
			Err:     dibs.ErrInvalid,
		}
	}
	return &Error{
		Problem: problem,
		Next:    "use sqlite:PATH or postgres://USER@HOST/NAME in --db or $DIBS_DB; mysql://USER@HOST/NAME is being made, and sqlserver://USER@HOST?database=NAME experimental",
		Err:     dibs.ErrInvalid,
	}
}
