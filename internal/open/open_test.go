package open

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestURLsOfSQLiteFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for url, path := range map[URL]string{
		"sqlite:a.db":      "a.db",
		"sqlite:b":         "b",
		"sqlite://c.db":    "c.db",
		"./d.sqlite":       "d.sqlite",
		"e.sqlite3":        "e.sqlite3",
		"sqlite:per%20f.x": "per%20f.x",
	} {
		db, err := Database(t.Context(), url, Options{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := db.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s makes no file %s: %v", url, path, err)
		}
		again, err := Database(t.Context(), Absolute(url), Options{Existing: true})
		if err != nil {
			t.Errorf("%s is not the same file: %v", Absolute(url), err)
			continue
		}
		if err := again.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []URL{"postgres://localhost/x.db", "mysql:x", "x"} {
		if got := Absolute(url); got != url {
			t.Errorf("%s becomes %s", url.Reveal(), got.Reveal())
		}
	}
}

// PostgreSQL's drivers do not read a + in a URL as a blank.
func TestParametersOfAURLStayAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"postgres://h/x?options=-c%20work_mem=8MB":        "postgres://h/x?options=-c%20work_mem=8MB&connect_timeout=10",
		"postgres://h/x?connect_timeout=3&options=-c%20a": "postgres://h/x?connect_timeout=3&options=-c%20a",
		"postgres://h/x": "postgres://h/x?connect_timeout=10",
	} {
		if _, server, err := Place(URL(given)); err != nil || server != want {
			t.Errorf("%s becomes %s, %v", given, server, err)
		}
	}
}

func TestNamedTablesAreOnesOwn(t *testing.T) {
	t.Parallel()
	for url, want := range map[URL]Options{"postgres://h/x": {Schema: "n"}, "sqlite:x.db": {Prefix: "n_"}} {
		o, text, err := Named(url, "n")
		if err != nil || o.Schema != want.Schema || o.Prefix != want.Prefix || !strings.Contains(text, want.Schema+want.Prefix) {
			t.Errorf("%s: %+v, %q, %v", url, o, text, err)
		}
	}
	if _, _, err := Named("mysql:x", "n"); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestMigrationsAreTextForTheRightDatabase(t *testing.T) {
	t.Parallel()
	for url, words := range map[URL]string{"postgres://": "create schema", "postgresql://h/x": "other", "sqlite:x.db": "create table"} {
		o := Options{}
		if words == "other" {
			o.Schema = "other"
		}
		sql, err := Migrations(url, o)
		if err != nil || !strings.Contains(sql, words) {
			t.Errorf("the SQL for %s lacks %q: %v", url, words, err)
		}
	}
	if _, err := Migrations("oracle:x", Options{}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(".", "x.db")); err == nil {
		t.Error("a file was made")
	}
}

// sqliteError is an error like those of the driver.
type sqliteError int

func (e sqliteError) Error() string { return fmt.Sprintf("sqlite: code %d", int(e)) }
func (e sqliteError) Code() int     { return int(e) }

func TestExplain(t *testing.T) {
	t.Parallel()
	const extended = 10 << 8 // an extended result code of SQLite, in the upper bits
	for _, test := range []struct {
		err     error
		problem string
		is      error
	}{
		{sqliteError(sqliteBusy), "another process holds the write lock", dibs.ErrUnavailable},
		{sqliteError(sqliteReadonly | extended), "read-only", dibs.ErrUnavailable},
		{sqliteError(sqliteIOErr | extended), "failed", dibs.ErrUnavailable},
		{sqliteError(sqliteFull), "full; nothing was written", dibs.ErrUnavailable},
		{sqliteError(sqliteCantOpen), "cannot be opened", dibs.ErrUnavailable},
		{sqliteError(sqliteCorrupt), "damaged", sqliteError(sqliteCorrupt)},
		{sqliteError(sqliteNotADB), "is not a SQLite database", dibs.ErrInvalid},
		{pgError("28P01"), `db:5432 refuses user "app"`, dibs.ErrUnavailable},
		{pgError("3D000"), `db:5432 has no database "shop"`, dibs.ErrUnavailable},
		{pgError("42501"), "lacks a right: words of the server", nil},
		{pgError("53100"), "disk of the PostgreSQL server is full", dibs.ErrUnavailable},
		{pgError("53300"), "no free connection", dibs.ErrUnavailable},
		{pgError("25006"), "read-only", dibs.ErrUnavailable},
		{pgError("57014"), "stopped a statement: words of the server", dibs.ErrUnavailable},
		{pgError("55P03"), "stopped waiting for a lock", dibs.ErrUnavailable},
		{pgError("25P03"), "ended a transaction", dibs.ErrUnavailable},
		{pgError("42P05"), "pooler", nil},
		{connectError(t), "no PostgreSQL server answers at db:5432", dibs.ErrUnavailable},
		{fmt.Errorf("schema x is old; run `dibs migrate`: %w", dibs.ErrSchema), "schema x is old", dibs.ErrSchema},
	} {
		err := Explain("postgres://app:secret@db:5432/shop", fmt.Errorf("dibs: open: %w", test.err))
		var known *Error
		if !errors.As(err, &known) || known.Next == "" || !strings.Contains(known.Problem, test.problem) {
			t.Errorf("%v is explained as %v", test.err, err)
			continue
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%v is not %v", err, test.is)
		}
		if strings.Contains(known.Problem, "dibs migrate") {
			t.Errorf("%v says what is to be run in its problem %q and in its advice %q", test.err, known.Problem, known.Next)
		}
		if strings.Contains(known.Problem+known.Next, "secret") {
			t.Errorf("%v tells the password", err)
		}
		if again := Explain("", err); any(again) != any(err) {
			t.Errorf("%v is explained twice: %v", err, again)
		}
	}
	for _, err := range []error{nil, dibs.ErrNotFound, pgError("23505"), sqliteError(1)} {
		if got := Explain("sqlite:x", err); any(got) != any(err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

// Parameters and the environment supply what a URL leaves out.
func TestExplainNamesUserAndDatabaseAsTheyWereAsked(t *testing.T) {
	t.Setenv("PGUSER", "env")
	t.Setenv("PGDATABASE", "")
	for url, want := range map[URL]string{
		"postgres://db:5432/shop?user=app":        `db:5432 refuses user "app"`,
		"postgres://db:5432/shop":                 `db:5432 refuses user "env"`,
		"postgres://db:5432/?dbname=stock&user=x": `db:5432 has no database "stock"`,
		"postgres://db:5432?user=x":               `db:5432 has no database "x"`,
	} {
		code := "28P01"
		if strings.Contains(want, "database") {
			code = "3D000"
		}
		var known *Error
		if !errors.As(Explain(url, pgError(code)), &known) || !strings.Contains(known.Problem, want) {
			t.Errorf("%s: %v, want %s", url, known, want)
		}
	}
}

func pgError(code string) error { return &pgconn.PgError{Code: code, Message: "words of the server"} }

// connectError is pgx's error when no server listens.
func connectError(t *testing.T) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = pgconn.Connect(context.Background(), "postgres://"+address+"/x?sslmode=disable")
	if err == nil {
		t.Fatal("a server listens")
	}
	return err
}

// An error of a program's own listening is not taken for a server that does not answer.
func TestAPortThatIsTakenIsNoServerThatIsAway(t *testing.T) {
	t.Parallel()
	_, err := net.Listen("tcp", "127.0.0.1")
	for _, url := range []URL{"mysql://root@127.0.0.1:3306/shop", "postgres://127.0.0.1/shop"} {
		var known *Error
		if errors.As(Explain(url, err), &known) {
			t.Errorf("with the database %s, %v is explained as %v", url, err, known)
		}
	}
}
