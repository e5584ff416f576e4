package session

import (
	"context"
	"strings"
	"syscall"
)

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT of tcp(7), which package syscall does not have

// giveUpUnconfirmed has the system end a connection if what was sent over it is not confirmed within lostAfter. By itself it
// would send that again for a quarter of an hour, and not ask for signs of life meanwhile.
func giveUpUnconfirmed(_ context.Context, network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	_ = c.Control(func(fd uintptr) { // a system that refuses it finds out later
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(lostAfter.Milliseconds()))
	})
	return nil
}
