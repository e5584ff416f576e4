package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// PoolerConns is the number of Pooler's connections to the server.
const PoolerConns = 4

// Pooler starts pgbouncer in transaction mode in front of the server and returns the URL through it.
func Pooler(t testing.TB, server string) string {
	t.Helper()
	bin, err := osexec.LookPath("pgbouncer")
	if err != nil {
		if bin, err = osexec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Fatal("pgbouncer is missing; scripts/postgres.sh install installs it")
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	_ = l.Close() // frees the port for pgbouncer
	password, _ := u.User.Password()
	target := fmt.Sprintf("host=%s port=%s user=%s dbname=%s", u.Hostname(), u.Port(), u.User.Username(), strings.TrimPrefix(u.Path, "/"))
	if password != "" {
		target += " password=" + password
	}
	config := filepath.Join(t.TempDir(), "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\ndb = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nauth_type = any\npool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 1000\nlog_connections = 0\nlog_disconnections = 0\nunix_socket_dir =\n", target, address.Port, PoolerConns)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{config}
	if os.Getuid() == 0 {
		for _, dir := range []string{filepath.Dir(config), filepath.Dir(filepath.Dir(config))} { // the test's, as testing.T makes them
			_ = os.Chmod(dir, 0o755) // if it fails, pgbouncer reports the unreadable file
		}
		args = []string{"-u", "nobody", config}
	}
	cmd := osexec.Command(bin, args...)
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if pgbouncer has ended
		_ = cmd.Wait()         // the error says only that it was killed
		if t.Failed() {
			t.Logf("pgbouncer: %s", log.String())
		}
	})
	pooled := fmt.Sprintf("postgres://user@%s/db?sslmode=disable", address)
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := net.Dial("tcp", address.String())
		if err == nil {
			_ = c.Close() // nothing was written
			return pooled
		}
		if time.Now().After(deadline) {
			t.Fatalf("pgbouncer does not start: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
