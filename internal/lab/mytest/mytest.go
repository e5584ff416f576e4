// Package mytest gives each test a MariaDB database of its own.
//
// All databases of a test process are on one server: the one that DIBS_TEST_MARIADB names, or one that the package
// starts with the server program of this machine. That server listens on the loopback address, keeps its files in
// memory if there is enough, and is stopped and deleted when the test process ends, however it ends.
package mytest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs/internal/needs"
)

const (
	// EnvServer is the environment variable for a running server whose user may create databases, as the driver
	// writes it: user:password@tcp(host:port)/
	EnvServer = "DIBS_TEST_MARIADB"
	// EnvBin is the environment variable for the directory of the server program.
	EnvBin = "DIBS_MARIADB_BIN"
)

// patience bounds each step that talks to a server.
const patience = 10 * time.Minute

// errNotFound says that this machine has no server program.
var errNotFound = errors.New("no MariaDB server program found")

// Address returns the address of a fresh, empty database, as the driver writes it. The database is dropped when the test
// ends.
func Address(t testing.TB) string {
	t.Helper()
	server := address(t)
	name := "dibs_test_" + strings.ToLower(rand.Text())
	if err := administer(server, "create database "+name); err != nil {
		t.Fatalf("mytest: make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := administer(server, "drop database "+name); err != nil {
			t.Errorf("mytest: drop the test's database: %v", err)
		}
	})
	return named(server, name)
}

// URL is Address as dibs takes it.
func URL(t testing.TB) string {
	t.Helper()
	config, err := mysql.ParseDSN(Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return "mysql://" + url.UserPassword(config.User, config.Passwd).String() + "@" + config.Addr + "/" + config.DBName
}

// named is the address of a database of a server.
func named(server, name string) string {
	config, err := mysql.ParseDSN(server)
	if err != nil {
		return server // a connection says what is wrong with it
	}
	config.DBName = name
	return config.FormatDSN()
}

// shared starts the server that all tests of this process use. The server ends when the process ends.
var shared = sync.OnceValues(func() (*server, error) { return launch(inMemory(), "--innodb-flush-log-at-trx-commit=0") })

// ServerAddress is the address of the server that all tests of this process use, without a database. EnvServer can name it
// for other test processes.
func ServerAddress(t testing.TB) string {
	t.Helper()
	return address(t)
}

func address(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(EnvServer); server != "" {
		return server
	}
	skipIfShort(t)
	s, err := shared()
	started(t, err)
	return s.address()
}

func started(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNotFound) {
		needs.Missing(t, "needs MariaDB: %v (scripts/mariadb.sh installs it, on Debian; %s can name its directory)", err, EnvBin)
	}
	if err != nil {
		t.Fatalf("mytest: %v", err)
	}
}

// Server is a test's own server, with one database. Its methods fail the test, so call them from the test's own goroutine.
type Server struct {
	t      testing.TB
	server *server
}

// NewServer starts a server. With late it does not write its log at each commit, but later. Its files are on disk: a log in
// memory it would map, and so write at once.
func NewServer(t testing.TB, late bool) *Server {
	t.Helper()
	skipIfShort(t)
	options := []string{"--innodb-flush-log-at-trx-commit=1"}
	if late {
		options = append(options, "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-timeout=2700")
	}
	s, err := launch(onDisk, options...)
	started(t, err)
	t.Cleanup(func() {
		_ = s.guard.Close() // the guard then deletes everything
		<-s.ended
	})
	own := &Server{t, s}
	own.must(administer(s.address(), "create database dibs"))
	return own
}

// Address is the address of the server's database, as the driver writes it.
func (s *Server) Address() string { return named(s.server.address(), "dibs") }

// Kill ends the server with SIGKILL. What it has written to files is kept.
func (s *Server) Kill() {
	s.t.Helper()
	s.must(s.server.kill())
}

// Start starts the killed server, and returns when it has recovered and takes connections.
func (s *Server) Start() {
	s.t.Helper()
	s.must(s.server.again())
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("mytest: %v", err)
	}
}

// skipIfShort skips a test that needs MariaDB, so that make check needs only Go. Without -short, a missing server fails in CI.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs MariaDB: not with -short")
	}
}

// admin keeps this process' connections to each server for making databases.
var admin = struct {
	sync.Mutex
	pools map[string]*sql.DB
}{pools: map[string]*sql.DB{}}

func administer(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin.Lock()
	pool, err := admin.pools[server], error(nil)
	if pool == nil {
		pool, err = sql.Open("mysql", server)
		admin.pools[server] = pool
	}
	admin.Unlock()
	if err != nil {
		return err
	}
	if _, err := pool.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// M runs tests, and then closes the connections that administer keeps.
type M struct{ *testing.M }

func (m M) Run() int {
	defer func() {
		admin.Lock()
		defer admin.Unlock()
		for _, pool := range admin.pools {
			_ = pool.Close() // the server ends the sessions in any case
		}
	}()
	return m.M.Run()
}
