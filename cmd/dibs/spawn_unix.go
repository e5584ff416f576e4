//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
)

// spawner starts programs, each in a process group of its own.
type spawner struct{}

func newSpawner() *spawner { return &spawner{} }

func (*spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

func (*spawner) close() {}
