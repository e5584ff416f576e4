//go:build unix

package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readable reports whether a read of f would not wait, or comes not to before d is over.
func readable(f *os.File, d time.Duration) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	deadline := time.Now().Add(d)
	data := false
	_ = raw.Control(func(fd uintptr) {
		for {
			left := max(time.Until(deadline), 0)
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, int(left.Milliseconds()))
			if errors.Is(err, unix.EINTR) {
				continue
			}
			data = n > 0 && poll[0].Revents&unix.POLLIN != 0
			return
		}
	})
	return data
}
