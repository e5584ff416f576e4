package torture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// seat is one worker or producer, of which there is always one process: when it is
// killed, another takes its seat.
type seat struct {
	part   Part
	proxy  *proxy                        // nil on SQLite
	make   func(Part) (*exec.Cmd, error) // the command of a process
	launch func(*exec.Cmd) error

	mu       sync.Mutex // held while something is done to the process
	restarts int
	now      *process
}

// process is one process. It ends by itself when its stdin does.
type process struct {
	client string
	cmd    *exec.Cmd
	stdin  io.Closer
	log    string        // its stderr
	exited chan struct{} // closed when it has ended, err being set
	err    error
}

// start starts the seat's next process.
func (s *seat) start() error {
	s.restarts++
	part := s.part
	part.Client = fmt.Sprintf("%s.%d", part.Name, s.restarts)
	part.Seed += uint64(s.restarts) << 32
	cmd, err := s.make(part)
	if err != nil {
		return err
	}
	p := &process{client: part.Client, cmd: cmd, log: filepath.Join(part.Dir, part.Client+".log"), exited: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	cmd.Stderr = log
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.client, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	s.now = p
	return nil
}

// kill ends the process as a crash would: with SIGKILL, so that it can do nothing more.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.client, err)
	}
	<-p.exited
	return nil
}

// end asks the process to end and waits for it, but not for ever.
func (p *process) end(wait time.Duration) error {
	_ = p.stdin.Close() // fails only if the process has ended
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.crashed()
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not end within %v", p.client, wait), p.kill())
	}
}

// crashed tells how a process ended that nobody has killed, if that was not as it should.
func (p *process) crashed() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	if p.err == nil {
		return nil
	}
	said, _ := os.ReadFile(p.log) // what it said is only a help here
	return fmt.Errorf("%s ended: %w: %s", p.client, p.err, strings.TrimSpace(string(said)))
}
