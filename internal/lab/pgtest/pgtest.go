// Package pgtest gives each test a real PostgreSQL database or server of its own.
//
// Most tests need only [URL], which creates a fresh, empty database. All databases of a
// test process are on one server: the one that DIBS_TEST_POSTGRES names, or one that the
// package starts with the server programs of this machine. Tests that stop, restart or
// kill a server use [NewServer], which starts one for this test only.
//
// Servers that the package starts listen on the loopback address, and are stopped
// and deleted when the test process ends, however it ends. Their files are in memory if
// there is enough, since creating databases is several times faster there. This loses
// nothing that a disk would keep, since no test crashes the machine.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// EnvServer is the environment variable for the URL of a running server whose user
	// may create databases.
	EnvServer = "DIBS_TEST_POSTGRES"
	// EnvBin is the environment variable for the directory of the server programs.
	EnvBin = "DIBS_PG_BIN"
	// EnvDir is the environment variable for the directory in which servers keep their files.
	EnvDir = "DIBS_PG_DIR"

	// envVersion is the environment variable for the version of the server programs.
	envVersion = "DIBS_PG_VERSION"
)

// patience bounds each step that talks to a server.
const patience = time.Minute

// URL returns the address of a fresh, empty database, which is dropped when the
// test ends.
func URL(t testing.TB) string {
	t.Helper()
	return database(t, serverURL(t), "template0")
}

// Filled is URL for a database with what fill writes into it through a URL. Only the first database of
// a name is filled; the others are copies of it, so it must be the same each time. On a server that does not
// end with the tests, which would keep the first, each is filled.
func Filled(t testing.TB, name string, fill func(url string) error) string {
	t.Helper()
	server := serverURL(t)
	if os.Getenv(EnvServer) != "" {
		url := database(t, server, "template0")
		if err := fill(url); err != nil {
			t.Fatalf("pgtest: make the database %s: %v", name, err)
		}
		return url
	}
	templates.Lock()
	defer templates.Unlock()
	from := templates.names[server+" "+name]
	if from == "" {
		from = "dibs_template_" + strings.ToLower(rand.Text())
		err := create(server, from, "template0")
		if err == nil {
			err = fill(withDatabase(t, server, from))
		}
		if err != nil {
			t.Fatalf("pgtest: make the database %s: %v", name, err)
		}
		templates.names[server+" "+name] = from
	}
	return database(t, server, from)
}

// templates are the databases that Filled has filled, by their server and name. Nobody may be connected
// to one while it is copied.
var templates = struct {
	sync.Mutex
	names map[string]string
}{names: map[string]string{}}

// create makes a database by copying files, which takes half the time of writing them to the log, the
// default since version 15.
func create(server, name, from string) error {
	err := administer(server, "create database "+name+" template "+from+" strategy file_copy")
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Code == "42601" { // the version is older
		err = administer(server, "create database "+name+" template "+from)
	}
	return err
}

// database makes a database for one test.
func database(t testing.TB, server, from string) string {
	t.Helper()
	name := "dibs_test_" + strings.ToLower(rand.Text())
	if err := create(server, name, from); err != nil {
		t.Fatalf("pgtest: make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := administer(server, "drop database "+name+" with (force)"); err != nil {
			t.Errorf("pgtest: drop the test's database: %v", err)
		}
	})
	return withDatabase(t, server, name)
}

// NewServer starts a server for this test only, and stops it when the test ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	skipIfShort(t)
	s, err := Launch()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(s.Close)
	return &Server{t, s}
}

// shared launches the server that all tests of this process use. The server ends when the
// process ends.
var shared = sync.OnceValues(Launch)

func serverURL(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(EnvServer); server != "" {
		return server
	}
	skipIfShort(t)
	s, err := shared()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s.URL()
}

// skipIfShort skips a test that needs PostgreSQL, so that make check needs only Go. Without
// -short, a missing PostgreSQL fails the test.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL: not with -short")
	}
}

// admin keeps this process' connection to each server, by URL, for creating databases.
// Opening a connection costs a server as much as creating a database.
var admin = struct {
	sync.Mutex
	conns map[string]*pgx.Conn
}{conns: map[string]*pgx.Conn{}}

// administer runs a statement on the connection that admin keeps.
func administer(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin.Lock()
	defer admin.Unlock()
	conn := admin.conns[server]
	if conn == nil || conn.Ping(ctx) != nil { // a test may have ended the connection
		var err error
		if conn, err = pgx.Connect(ctx, server); err != nil {
			return err
		}
		admin.conns[server] = conn
	}
	_, err := conn.Exec(ctx, statement)
	return err
}

// M runs tests, and then closes the connections that administer keeps. On a slow machine such a connection reads on a
// goroutine in the background. A search for goroutines left behind would find it.
type M struct{ *testing.M }

func (m M) Run() int {
	defer func() {
		admin.Lock()
		defer admin.Unlock()
		for _, conn := range admin.conns {
			_ = conn.Close(context.Background()) // the server ends the session in any case
		}
	}()
	return m.M.Run()
}

// exec opens a connection and runs a statement on it.
func exec(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Flushes skips a test that needs up-to-date counts of the rows which statements read: before
// version 15, a server cannot update them at once.
func Flushes(t testing.TB, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) {
	t.Helper()
	var version int
	if err := q.QueryRow(t.Context(), "select current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if version < 150000 {
		t.Skip("needs pg_stat_force_next_flush of PostgreSQL 15")
	}
}

func withDatabase(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		t.Fatalf("pgtest: %s must be a URL such as postgres://user:password@host:port/database", EnvServer)
	}
	u.Path = "/" + name
	return u.String()
}
