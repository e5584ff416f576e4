package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts programs that die when this process does, however it ends. The
// kernel kills them at the end of the thread that started them, not of the process,
// so one thread starts all of them and lives until the last has ended.
type spawner struct{ starts chan start }

type start struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newSpawner() *spawner {
	s := &spawner{starts: make(chan start)}
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		for start := range s.starts {
			start.result <- start.cmd.Start()
		}
	}()
	return s
}

// start is cmd.Start.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error, 1)
	s.starts <- start{cmd, result}
	return <-result
}

// close kills the running programs.
func (s *spawner) close() { close(s.starts) }
