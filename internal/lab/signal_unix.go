//go:build unix

package lab

import (
	"os"
	"syscall"
)

// CanSuspend says that processes can be stopped and continued.
const CanSuspend = true

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error  { return p.Signal(syscall.SIGCONT) }
