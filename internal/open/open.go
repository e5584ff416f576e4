// Package open opens the database that a URL names, and explains in plain words why it
// cannot be used.
package open

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
)

// Default is the database that is used when none is named.
const Default = URL("sqlite:dibs.db")

// Options choose the schema or the prefix of the tables, and how to connect.
type Options struct {
	Schema string // PostgreSQL only: the schema; default "dibs"
	Prefix string // SQLite only: prefix of the tables' names; default "dibs_"
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
//
// It creates the schema in a SQLite file that has no tables at all; elsewhere, Migrate does.
// Errors are of type [*Error] if package open knows what to do about them.
func Database(ctx context.Context, u URL, o Options) (dibs.Database, error) {
	t, err := parse(u, o)
	if err != nil {
		return nil, err
	}
	db, err := t.open(ctx, o)
	return db, Explain(u, err)
}

// Migrate brings the schema of the database at u up to this version.
func Migrate(ctx context.Context, u URL, o Options) error {
	t, err := parse(u, o)
	if err != nil {
		return err
	}
	if t.sqlite == "" {
		return Explain(u, migratePostgres(ctx, t.postgres, o))
	}
	if err := checkFile(t.sqlite, false); err != nil {
		return err
	}
	return Explain(u, migrateSQLite(ctx, t.sqlite, o))
}

// Migrations is the SQL that Migrate would run on an empty database at u. It
// does not connect.
func Migrations(u URL, o Options) (string, error) {
	t, err := parse(u, o)
	if err != nil {
		return "", err
	}
	if t.sqlite != "" {
		return migrationsSQLite(o)
	}
	return migrationsPostgres(o)
}

// Place returns the path of the SQLite file that u names, whose folder exists, or the URL
// of its PostgreSQL database, with a connect_timeout. It does not connect.
func Place(u URL) (path, server string, err error) {
	t, err := parse(u, Options{})
	if err == nil && t.sqlite != "" {
		err = checkFile(t.sqlite, false)
	}
	return t.sqlite, t.postgres, err
}

// target is a parsed URL: one of the two fields is set.
type target struct {
	sqlite   string // path of the file
	postgres string // the URL as pgx takes it
}

func (t target) open(ctx context.Context, o Options) (dibs.Database, error) {
	if t.sqlite == "" {
		return openPostgres(ctx, WithDefaults(t.postgres, o), o)
	}
	if err := checkFile(t.sqlite, o.Existing); err != nil {
		return nil, err
	}
	db, err := openSQLite(ctx, t.sqlite, o)
	if o.Existing && lacksTables(err) {
		return nil, &Error{
			Problem: "there are no tables of dibs in " + t.sqlite,
			Next:    "'dibs migrate' makes them; to work on a table of your own, give --table MAPPING",
			Err:     err,
		}
	}
	return db, err
}

func parse(u URL, o Options) (target, error) {
	if path, ok := sqlitePath(u); ok {
		return parseSQLite(path, o)
	}
	scheme, _, _ := strings.Cut(string(u), ":")
	if scheme != "postgres" && scheme != "postgresql" {
		return target{}, unknown(u)
	}
	if o.Prefix != "" {
		return target{}, &Error{
			Problem: "--prefix is for SQLite",
			Next:    "on PostgreSQL, name the schema with --schema",
			Err:     dibs.ErrInvalid,
		}
	}
	server, err := serverURL(u)
	if err != nil {
		return target{}, &Error{
			Problem: "the PostgreSQL URL cannot be read: " + err.Error(),
			Next:    "write postgres://USER:PASSWORD@HOST:5432/NAME, with special characters of the password as %XX",
			Err:     dibs.ErrInvalid,
		}
	}
	// Without a timeout, a server that does not answer blocks for minutes.
	addParam(server, "connect_timeout", "10")
	return target{postgres: server.String()}, nil
}

// WithDefaults adds the options Program and Conns to a PostgreSQL URL that does not set
// them itself.
func WithDefaults(rawURL string, o Options) string {
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

func sqlitePath(u URL) (string, bool) {
	path, named := strings.CutPrefix(string(u), "sqlite:")
	path = strings.TrimPrefix(path, "//")
	if likeServer(path, named) {
		return "", false
	}
	if named {
		return path, true
	}
	switch filepath.Ext(path) {
	case ".db", ".sqlite", ".sqlite3":
		return string(u), !strings.Contains(string(u), "://")
	}
	return "", false
}

func parseSQLite(path string, o Options) (target, error) {
	switch {
	case o.Schema != "":
		return target{}, &Error{
			Problem: "--schema is for PostgreSQL",
			Next:    "on SQLite, choose the prefix of the tables' names with --prefix",
			Err:     dibs.ErrInvalid,
		}
	case path == "" || strings.HasPrefix(path, ":memory:"):
		return target{}, &Error{
			Problem: "the SQLite URL names no file",
			Next:    "write sqlite:PATH, such as " + string(Default),
			Err:     dibs.ErrInvalid,
		}
	case likeParameters(path):
		name, _, _ := strings.Cut(path, "?") // the part after it may be a secret
		return target{}, &Error{
			Problem: "a SQLite URL takes no parameters, and there is no file with a ? in its name: " + name,
			Next:    "leave out the ? and what follows; if the name is meant so, make the empty file first",
			Err:     dibs.ErrInvalid,
		}
	}
	return target{sqlite: path}, nil
}

// likeParameters reports whether a path seems to end in parameters, such as ?mode=ro, and
// no file of that name exists.
func likeParameters(path string) bool {
	if !strings.Contains(filepath.Base(path), "?") {
		return false
	}
	_, err := os.Stat(path)
	return err != nil
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
		Next:    "use sqlite:PATH or postgres://USER@HOST/NAME in --db or $DIBS_DB",
		Err:     dibs.ErrInvalid,
	}
}

// checkFile explains problems for which SQLite only says "unable to open database file".
func checkFile(path string, existing bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &Error{
			Problem: path + " is a directory",
			Next:    "name a file in it, such as sqlite:" + filepath.Join(path, "dibs.db"),
			Err:     dibs.ErrInvalid,
		}
	case err == nil && !info.Mode().IsRegular(): // opening a named pipe would wait for its other end
		return &Error{
			Problem: path + " is a named pipe, a socket or a device",
			Next:    "name a file with --db or $DIBS_DB",
			Err:     dibs.ErrInvalid,
		}
	case errors.Is(err, fs.ErrNotExist) && existing:
		return &Error{
			Problem: "there is no database file " + path,
			Next:    "name another with --db or $DIBS_DB, or make it with 'dibs migrate'",
			Err:     dibs.ErrSchema,
		}
	case errors.Is(err, fs.ErrNotExist):
		dir, _ := filepath.Split(path) // filepath.Dir would drop x/.. without looking
		return checkFolder(cmp.Or(dir, "."))
	}
	return nil
}

func checkFolder(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &Error{
			Problem: "there is no folder " + strings.TrimSuffix(dir, string(filepath.Separator)),
			Next:    "make it first, or name another file with --db or $DIBS_DB",
			Err:     dibs.ErrInvalid,
		}
	}
	return nil
}

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
