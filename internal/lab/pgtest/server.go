package pgtest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/dibs-queue/dibs/internal/lab/pgserver"
)

// Stop and Restart end a server in one of these modes.
const (
	Fast      = pgserver.Fast
	Immediate = pgserver.Immediate
)

// Server is a test's own server. Its methods fail the test, so call them from the
// test's own goroutine.
type Server struct {
	t      testing.TB
	server *pgserver.Server
}

// Launch starts a server that lives until the process ends.
func Launch() (*pgserver.Server, error) {
	_ = os.Getenv(envVersion) // the go command runs a test anew if what it has read changes
	s, err := pgserver.Launch(os.Getenv(EnvBin), os.Getenv(EnvDir))
	if errors.Is(err, pgserver.ErrNotFound) {
		return nil, fmt.Errorf("%w; run the tests with make test, which installs them, or name a running server in %s, "+
			"or the directory of initdb and postgres in %s", err, EnvServer, EnvBin)
	}
	return s, err
}

// URL returns the address of the server's database.
func (s *Server) URL() string { return s.server.URL() }

// Stop ends the server and waits until it has ended.
func (s *Server) Stop(m pgserver.Mode) {
	s.t.Helper()
	s.must(s.server.Stop(m))
}

// Kill ends the server's processes with SIGKILL. Their writes to files are kept, as if only
// the server had crashed and not the machine.
func (s *Server) Kill() {
	s.t.Helper()
	s.must(s.server.Kill())
}

// Start starts a stopped or killed server, and returns when it has recovered and takes
// connections.
func (s *Server) Start() {
	s.t.Helper()
	s.must(s.server.Start())
}

// Restart stops the server and starts it again.
func (s *Server) Restart(m pgserver.Mode) {
	s.t.Helper()
	s.Stop(m)
	s.Start()
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}
}
