package torture

import (
	"errors"
	"os"
)

// canStop says that processes cannot be stopped, since Windows has no SIGSTOP.
const canStop = false

func stop(*os.Process) error { return errors.ErrUnsupported }
func cont(*os.Process) error { return errors.ErrUnsupported }
