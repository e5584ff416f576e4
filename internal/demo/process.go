package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// process is one worker process. It ends by itself when its stdin does, and so
// cannot outlive the demo.
type process struct {
	name    string
	history string
	log     string // its stderr
	cmd     *exec.Cmd
	stdin   io.Closer
	exited  chan struct{} // closed when it has ended, err being set
	err     error
	killed  time.Time
}

// start starts a worker process; command makes its command line.
func start(name, dir string, command func(name, history string) *exec.Cmd) (*process, error) {
	p := &process{
		name:    name,
		history: filepath.Join(dir, name+".history"),
		log:     filepath.Join(dir, name+".log"),
		exited:  make(chan struct{}),
	}
	p.cmd = command(name, p.history)
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// kill ends the process as a crash would: with SIGKILL, so that it can do nothing more.
func (p *process) kill() error {
	p.killed = time.Now()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// stop asks the process to end and waits for it, but not for ever.
func (p *process) stop(wait time.Duration) error {
	if !p.killed.IsZero() {
		return nil
	}
	_ = p.stdin.Close() // fails only if the process has ended
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.crashed()
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within %v", p.name, wait), p.kill())
	}
}

// crashed tells how the process ended, if that was not as it should.
func (p *process) crashed() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	if !p.killed.IsZero() || p.err == nil {
		return nil
	}
	said, _ := os.ReadFile(p.log) // what it said is only a help here
	return fmt.Errorf("%s ended: %w: %s", p.name, p.err, strings.TrimSpace(string(said)))
}
