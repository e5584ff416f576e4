package runner

import (
	"io"
	"os"
)

// Windows has no such process groups, so only the program itself is ended.

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// readRest does nothing, since the pipe had to be closed to end the reading.
func readRest(*os.File, io.Writer) {}
