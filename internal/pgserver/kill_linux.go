package pgserver

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// kill ends a process and its children with SIGKILL. The process is stopped first,
// so that it starts no other and hears of no child's end.
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
		if !errors.Is(err, syscall.ESRCH) { // it has ended by itself
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
