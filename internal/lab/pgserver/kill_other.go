//go:build !linux

package pgserver

import "os"

// kill ends a process. The server's other processes notice it and end a little later.
func kill(p *os.Process) error { return p.Kill() }
