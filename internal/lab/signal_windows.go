package lab

import (
	"errors"
	"os"
)

// CanSuspend says that processes cannot be stopped, since Windows has no SIGSTOP.
const CanSuspend = false

func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
