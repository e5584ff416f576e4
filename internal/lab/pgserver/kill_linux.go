package pgserver

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// kill ends a process and its children with SIGKILL. It stops the process first, so
// that it starts no other child and does not notice the end of one.
func kill(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.Pid, p.Pid))
	errs := []error{err, p.Kill()}
	for _, field := range strings.Fields(string(list)) {
		pid, err := strconv.Atoi(field)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !errors.Is(err, syscall.ESRCH) { // ESRCH: the child has ended by itself
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
