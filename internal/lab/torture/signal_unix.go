//go:build unix

package torture

import (
	"os"
	"syscall"
)

// canStop says that processes can be stopped and continued.
const canStop = true

func stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func cont(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
