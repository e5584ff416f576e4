package torture

import (
	"errors"
	"os"
)

// canStop: Windows has nothing like SIGSTOP, so no process is stopped past its leases.
const canStop = false

func stop(*os.Process) error { return errors.ErrUnsupported }
func cont(*os.Process) error { return errors.ErrUnsupported }
