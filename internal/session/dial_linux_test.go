package session

import (
	"net"
	"syscall"
	"testing"
)

// A connection whose other end is gone is given up within half a minute, whether something was sent over it or not.
func TestConnectionsAreGivenUpInHalfAMinute(t *testing.T) {
	t.Parallel()
	config, _, err := Parse("postgres://127.0.0.1/any")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := config.ConnConfig.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ option, want int }{
		"idle before the first question": {syscall.TCP_KEEPIDLE, 15},
		"between two questions":          {syscall.TCP_KEEPINTVL, 5},
		"questions":                      {syscall.TCP_KEEPCNT, 3},
		"unconfirmed, in milliseconds":   {tcpUserTimeout, 30000},
	} {
		err = raw.Control(func(fd uintptr) {
			if got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, c.option); err != nil || got != c.want {
				t.Errorf("%s: %d, %v; want %d", what, got, err, c.want)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
