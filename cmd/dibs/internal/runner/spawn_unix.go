//go:build unix && !linux

package runner

import (
	"os"
	"os/exec"
	"syscall"
)

// Spawner starts programs, each in a process group of its own.
type Spawner struct{}

func NewSpawner() *Spawner { return &Spawner{} }

func (*Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

func (*Spawner) Close() {}

// awaitNoReader does nothing: this system reports that all readers have gone only when something is written.
func awaitNoReader(*os.File, func()) {}

// unread returns 0: this system does not tell how much of a pipe was read.
func unread(*os.File) int { return 0 }
