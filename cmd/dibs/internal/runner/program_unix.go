//go:build unix

package runner

import (
	"io"
	"os"
	"syscall"
	"time"
)

// A program is the leader of a process group, which has its id. A signal to an empty
// group has no effect. The system reuses a process id only after thousands of others,
// so the signal does not hit another program either.

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// readRest copies the contents of a pipe without waiting for more. It copies at most a
// pipe's capacity, since a process may go on writing.
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
			return true // even if the pipe was empty
		}) != nil || err != nil {
			return
		}
		_, _ = to.Write(part[:max(read, 0)])
	}
}
