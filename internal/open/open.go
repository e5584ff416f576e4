// Package open finds the database that a URL names, and says in plain words what
// is wrong when it cannot be used.
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

// Options choose where in a database the tables lie.
type Options struct {
	Schema string // PostgreSQL only: the schema; default "dibs"
	Prefix string // SQLite only: how the names of tables begin; default "dibs_"
	// Program is told to a PostgreSQL server as application_name, unless the URL or
	// $PGAPPNAME says another.
	Program string
	// Conns is how many connections to a PostgreSQL server are used at most, besides one
	// for wake-ups, unless the URL says it by pool_max_conns. 0: the store's default.
	Conns int
	// Migrated is told by Migrate what it has done: see postgres.Options.
	Migrated func(version int, names []string)
	// Since leaves out of Migrations those up to this version; NoTransaction, their begin
	// and commit.
	Since         int
	NoTransaction bool
	// Existing refuses a SQLite file that is not there, or has no tables of dibs, which
	// are otherwise made.
	Existing bool
}

// Database opens the database at u:
//
//	sqlite:PATH, or a PATH that ends in .db, .sqlite or .sqlite3
//	postgres://USER:PASSWORD@HOST:PORT/NAME, also postgresql://
//
// A schema is made in a SQLite file that has no tables at all; elsewhere, Migrate does it.
// Errors are of type [*Error] where there is something to say about what to do.
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

// Place says what u names: the path of a SQLite file, in a folder that is there, or
// else a PostgreSQL database by a URL that does not wait for ever. It does not connect.
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
	if o.Existing && lacksTables(ctx, t.sqlite, o) {
		return nil, &Error{
			Problem: "there are no tables of dibs in " + t.sqlite,
			Next:    "'dibs migrate' makes them; to work on a table of your own, give --table MAPPING",
			Err:     dibs.ErrSchema,
		}
	}
	return openSQLite(ctx, t.sqlite, o)
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
	// A server that does not answer must not be waited for by the minute.
	addParam(server, "connect_timeout", "10")
	return target{postgres: server.String()}, nil
}

// WithDefaults adds to a PostgreSQL URL what it does not say itself: the options Program
// and Conns.
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
			Next:    "on SQLite, name the beginning of the tables' names with --prefix",
			Err:     dibs.ErrInvalid,
		}
	case path == "" || strings.HasPrefix(path, ":memory:"):
		return target{}, &Error{
			Problem: "the SQLite URL names no file",
			Next:    "write sqlite:PATH, such as " + string(Default),
			Err:     dibs.ErrInvalid,
		}
	case likeParameters(path):
		name, _, _ := strings.Cut(path, "?") // what follows may be a key
		return target{}, &Error{
			Problem: "a SQLite URL takes no parameters, and there is no file with a ? in its name: " + name,
			Next:    "leave out the ? and what follows; where it is meant, make the empty file first",
			Err:     dibs.ErrInvalid,
		}
	}
	return target{sqlite: path}, nil
}

// likeParameters reports whether a path ends in what other programs take for parameters,
// such as ?mode=ro, unless there is a file of that name.
func likeParameters(path string) bool {
	if !strings.Contains(filepath.Base(path), "?") {
		return false
	}
	_, err := os.Stat(path)
	return err != nil
}

var otherScheme = regexp.MustCompile(`^[a-z]{2,12}$`)

// unknown shows at most the first word of what was given: it may hold a password anywhere.
func unknown(u URL) error {
	problem := "unknown kind of database"
	if scheme, _, ok := strings.Cut(string(u), "://"); ok && otherScheme.MatchString(scheme) {
		problem += ": " + scheme
	}
	return &Error{
		Problem: problem,
		Next:    "use sqlite:PATH or postgres://USER@HOST/NAME in --db or $DIBS_DB",
		Err:     dibs.ErrInvalid,
	}
}

// checkFile says what SQLite would only call "unable to open database file".
func checkFile(path string, existing bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &Error{
			Problem: path + " is a directory",
			Next:    "name a file in it, such as sqlite:" + filepath.Join(path, "dibs.db"),
			Err:     dibs.ErrInvalid,
		}
	case err == nil && !info.Mode().IsRegular(): // to open a named pipe would wait for its other end
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
		dir, _ := filepath.Split(path) // not filepath.Dir, which takes x/.. for nothing
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

// Absolute returns u such that it names the same database from any folder.
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
