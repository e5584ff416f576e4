//go:build !linux

package pgserver

import "os"

// kill ends a process. The server's others notice by themselves, a little later.
func kill(p *os.Process) error { return p.Kill() }
