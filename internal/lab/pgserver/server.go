// Package pgserver starts throw-away PostgreSQL servers. They listen on the loopback
// address, and are stopped and deleted when this process ends, however it ends.
package pgserver

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Mode says how Stop and Restart end a server.
type Mode syscall.Signal

const (
	// Fast rolls open transactions back, closes connections and writes a checkpoint.
	Fast = Mode(syscall.SIGINT)
	// Immediate ends everything at once; the next start recovers from the log.
	Immediate = Mode(syscall.SIGQUIT)
)

//go:embed postgres.conf
var conf []byte

// Server is a PostgreSQL server that the package has started. It keeps its
// address through restarts. One goroutine at a time may use it.
type Server struct {
	bin      string
	root     string // holds data/ and log
	port     int
	password string
	account  *account

	postmaster   *osexec.Cmd
	exited       chan struct{} // closed when postmaster has ended
	guard        io.Closer     // its end ends the server; Close or the end of this process closes it
	guardProcess *osexec.Cmd
}

// patience bounds each step that talks to a server.
const patience = time.Minute

// Launch starts a server with the programs in bin and its files in a new directory
// in dir. With an empty bin it looks for the programs; with an empty dir it keeps the
// files in memory if there is enough memory.
func Launch(bin, dir string) (_ *Server, err error) {
	s := &Server{password: rand.Text()}
	if s.bin, err = find(bin); err != nil {
		return nil, err
	}
	if s.account, err = unprivileged(); err != nil {
		return nil, err
	}
	if dir == "" {
		dir = inMemory()
	}
	if s.root, err = os.MkdirTemp(dir, "dibs-postgres-"); err != nil {
		return nil, err
	}
	if err := s.init(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.root))
	}
	if err := s.watch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.root))
	}
	if err := s.Start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// URL returns the address of the server's database. The server has no TLS: a client that asked for it
// would open each connection twice.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", s.password, s.port)
}

// Stop ends the server and waits until it has ended.
func (s *Server) Stop(m Mode) error { return s.signal(syscall.Signal(m)) }

// Kill ends the server's processes with SIGKILL, on Linux all of them at once. Their writes
// to files are kept, unlike after a power failure.
func (s *Server) Kill() error { return s.waitEnded("SIGKILL", kill(s.postmaster.Process)) }

// Crash ends the server without warning: by SIGKILL if hard, or by PostgreSQL's immediate shutdown.
func (s *Server) Crash(hard bool) error {
	if hard {
		return s.Kill()
	}
	return s.Stop(Immediate)
}

func (s *Server) signal(sig syscall.Signal) error {
	return s.waitEnded(sig.String(), s.postmaster.Process.Signal(sig))
}

// waitEnded waits until a signal has ended the server; err is the error of sending it.
func (s *Server) waitEnded(sig string, err error) error {
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the server: %w", err)
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the server did not end within %v of signal %v; %s", patience, sig, tail(s.log()))
	}
}

func (s *Server) data() string { return filepath.Join(s.root, "data") }
func (s *Server) log() string  { return filepath.Join(s.root, "log") }

func (s *Server) init() error {
	pwfile := filepath.Join(s.root, "password")
	if err := os.WriteFile(pwfile, []byte(s.password), 0o600); err != nil {
		return err
	}
	if err := s.account.chown(s.root, pwfile); err != nil {
		return err
	}
	// The files are still empty of data, so initdb need not flush them to the disk.
	cmd := s.command("initdb", "-D", s.data(), "-U", "postgres", "-E", "UTF8", "--no-locale",
		"--auth=scram-sha-256", "--pwfile="+pwfile, "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(conf)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.port, err = freePort()
	return err
}

// guardScript waits for the end of its input, which comes at the latest when this process
// ends. Then it ends the server and deletes its files.
const guardScript = `
read -r _
pidfile=$1/data/postmaster.pid
pid=$(head -n 1 "$pidfile" 2>/dev/null) && kill -QUIT "$pid"
i=0
while [ -e "$pidfile" ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
rm -rf "$1"`

// watch starts guardScript as a process that outlives this one. It runs as the server's
// user, so that it cannot end processes of other users.
func (s *Server) watch() error {
	s.guardProcess = osexec.Command("sh", "-c", guardScript, "guard", s.root)
	s.guardProcess.Dir = "/"
	detach(s.guardProcess, s.account)
	stdin, err := s.guardProcess.StdinPipe()
	if err != nil {
		return err
	}
	s.guard = stdin
	return s.guardProcess.Start()
}

// Close ends the server and deletes its files.
func (s *Server) Close() {
	select {
	case <-s.exited:
		// A killed server leaves its pid file behind; another process may have the pid by now.
		_ = os.Remove(filepath.Join(s.data(), "postmaster.pid"))
	default:
	}
	_ = s.guard.Close()
	_ = s.guardProcess.Wait()
}

// Start starts a stopped or killed server, and returns when it has recovered and takes
// connections. After a kill it tries again for a while, since remaining processes of the
// old server can keep a new one from starting.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := s.run()
		if err == nil {
			err = s.ready(ctx)
		}
		if err == nil || !errors.Is(err, errEnded) {
			return err
		}
		if wait(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

var errEnded = errors.New("the server ended before it took connections")

func (s *Server) run() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the server's log tells how it ended
	}()
	s.postmaster, s.exited = cmd, exited
	return nil
}

func (s *Server) ready(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%w; %s", errEnded, tail(s.log()))
		default:
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("the server takes no connections: %w; %s", err, tail(s.log()))
		}
	}
}

func (s *Server) command(program string, args ...string) *osexec.Cmd {
	cmd := osexec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.root
	detach(cmd, s.account)
	return cmd
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// freePort picks a random port below the range of ports for outgoing connections, so that
// it is still free when the server restarts.
func freePort() (int, error) {
	const low, high = 20_000, 32_000
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(high-low))
		if err != nil {
			return 0, err
		}
		port := low + int(n.Int64())
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port found")
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const limit = 2000
	if len(text) > limit {
		text = text[len(text)-limit:]
	}
	return fmt.Sprintf("its log ends with:\n%s", text)
}
