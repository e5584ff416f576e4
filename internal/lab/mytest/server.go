package mytest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// server is a MariaDB server that the package has started.
type server struct {
	root  string // holds the data, the log and the server's temporary files
	port  int
	guard io.WriteCloser  // each line kills the server, or starts it again
	ended <-chan struct{} // closed when the guard has ended
}

func (s *server) address() string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/", s.port) }

// launch starts a server, with its files in a directory of its own in dir, that lives until the process ends.
func launch(dir string, options ...string) (*server, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	s := &server{}
	if s.root, err = os.MkdirTemp(dir, "dibs-mariadb-"); err != nil {
		return nil, err
	}
	if s.port, err = freePort(); err == nil {
		err = s.start(program, options)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.root))
	}
	return s, nil
}

// find returns the path of the server program.
func find() (string, error) {
	dirs := []string{os.Getenv(EnvBin), "/usr/sbin", "/usr/libexec", "/usr/local/sbin"}
	if path, err := exec.LookPath("mariadbd"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, "mariadbd"); dir != "" {
			if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", errNotFound
}

// start makes the system tables and starts the server under a guard, a process that ends the server and deletes its
// files once this process has ended.
func (s *server) start(program string, options []string) error {
	log, err := os.Create(filepath.Join(s.root, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	guard := exec.Command("sh", append([]string{"-c", guardScript, "guard", program, s.root, fmt.Sprint(s.port)}, options...)...)
	guard.Dir, guard.Stdout, guard.Stderr = s.root, log, log
	if err := s.unprivileged(guard); err != nil {
		return err
	}
	if s.guard, err = guard.StdinPipe(); err != nil { // it stays open until this process ends
		return err
	}
	if err := guard.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = guard.Wait() // it was killed, or its log says why it has failed
		close(ended)
	}()
	s.ended = ended
	return s.ready()
}

// guardScript makes the server's system tables and starts the server. It kills the server when it reads a line, and starts
// it again when it reads another. The end of its input comes when the process has ended that runs the tests: then it
// kills the server and deletes its files.
const guardScript = `
program=$1 root=$2 port=$3
shift 3
trap 'rm -rf "$root"' EXIT
mariadb-install-db --no-defaults --datadir="$root/data" --tmpdir="$root" --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve || exit 1
while :; do
	"$program" --no-defaults --datadir="$root/data" --tmpdir="$root" --socket="$root/socket" --pid-file="$root/pid" --port="$port" --bind-address=127.0.0.1 \
		--skip-name-resolve --skip-log-bin --performance-schema=off --innodb-print-all-deadlocks=on --innodb-buffer-pool-size=256M --innodb-log-file-size=64M \
		--max-connections=2000 --table-open-cache=4000 --table-definition-cache=4000 "$@" </dev/null &
	read -r _
	goes_on=$?
	kill -KILL $!
	wait $! 2>/dev/null
	[ $goes_on = 0 ] && read -r _ || exit
done`

// ready waits until the server takes connections.
func (s *server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pool, err := sql.Open("mysql", s.address())
	if err != nil {
		return err
	}
	defer pool.Close()
	for {
		err := pool.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended before it took connections; %s", s.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server takes no connections: %w; %s", err, s.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the server with SIGKILL, and returns when it takes no connections any more. Its writes to files are kept, as
// if only the server had crashed and not the machine.
func (s *server) kill() error {
	if _, err := fmt.Fprintln(s.guard); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			return nil
		}
		_ = c.Close()
	}
	return errors.New("the killed server still takes connections")
}

// again starts the killed server, and returns when it has recovered and takes connections.
func (s *server) again() error {
	if _, err := fmt.Fprintln(s.guard); err != nil {
		return err
	}
	return s.ready()
}

// tail is the end of the server's log.
func (s *server) tail() string {
	text, err := os.ReadFile(filepath.Join(s.root, "log"))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("its log ends with:\n%s", text[max(0, len(text)-2000):])
}

// freePort picks a random port below the range of ports for outgoing connections.
func freePort() (int, error) {
	const low, high = 13_000, 31_000
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
