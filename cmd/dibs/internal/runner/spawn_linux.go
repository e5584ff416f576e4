package runner

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spawner starts programs that die when this process does, however it ends. The
// kernel kills them at the end of the thread that started them, not of the process,
// so one thread starts all of them and lives until the last has ended.
type Spawner struct{ starts chan start }

type start struct {
	cmd    *exec.Cmd
	result chan<- error
}

func NewSpawner() *Spawner {
	s := &Spawner{starts: make(chan start)}
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		for start := range s.starts {
			start.result <- start.cmd.Start()
		}
	}()
	return s
}

// Start is cmd.Start.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error, 1)
	s.starts <- start{cmd, result}
	return <-result
}

// Close kills the running programs.
func (s *Spawner) Close() { close(s.starts) }

// awaitNoReader calls gone once nobody has a pipe open to read from it. The file is the end to write to: once that is closed,
// it returns without the call. Nothing has to be written, as the system reports the end to those who wait for input.
func awaitNoReader(pipe *os.File, gone func()) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	err = raw.Read(func(fd uintptr) bool {
		state := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(state, 0)
		return err == nil && n > 0 && state[0].Revents&unix.POLLERR != 0
	})
	if err == nil {
		gone()
	}
}

// unread returns how many bytes of a pipe nobody has read, also when all readers have gone. The
// file is the end to write to.
func unread(pipe *os.File) (n int) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // fails if it is closed
	if err != nil {
		return 0
	}
	return n
}
