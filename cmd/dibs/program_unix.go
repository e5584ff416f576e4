//go:build unix

package main

import (
	"io"
	"os"
	"syscall"
	"time"
)

// A program is the leader of a process group, which has its id. A signal to a
// group that is empty goes nowhere; process ids come back only after thousands of
// others, so that it does not hit a stranger either.

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// readRest copies what a pipe holds, without waiting for more: at most what one can hold, as
// somebody may go on writing.
func readRest(pipe *os.File, to io.Writer) {
	raw, err := pipe.SyscallConn()
	if err != nil || pipe.SetReadDeadline(time.Time{}) != nil {
		return
	}
	const room = 1 << 20
	part := make([]byte, 32<<10)
	for n, read := 0, 1; n < room && read > 0; n += read {
		if raw.Read(func(fd uintptr) bool {
			read, err = syscall.Read(int(fd), part)
			return true // whether there was anything or not
		}) != nil || err != nil {
			return
		}
		_, _ = to.Write(part[:max(read, 0)])
	}
}
