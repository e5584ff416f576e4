package lab

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

// Process is a started process. It must end by itself when its stdin does, so that it
// cannot outlive its parent. One goroutine at a time may use it.
type Process struct {
	Name   string
	OS     *os.Process
	Killed time.Time // when Kill ended it; zero: it did not

	stdin      io.WriteCloser
	stderrFile string
	exited     chan struct{} // closed when the process has ended and exitErr is set
	exitErr    error
}

// Start starts a process with launch, or with the command's own Start if that is nil. Its stderr goes to
// NAME.log in dir.
func Start(name, dir string, cmd *exec.Cmd, launch func(*exec.Cmd) error) (*Process, error) {
	if launch == nil {
		launch = (*exec.Cmd).Start
	}
	p := &Process{Name: name, stderrFile: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(p.stderrFile)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	cmd.Stderr = log
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := launch(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.OS = cmd.Process
	go func() {
		p.exitErr = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Tell writes to the process' stdin.
func (p *Process) Tell(text string) error {
	_, err := io.WriteString(p.stdin, text)
	return err
}

// Kill ends the process as a crash would: with SIGKILL, so that it can do nothing more.
func (p *Process) Kill() error {
	p.Killed = time.Now()
	if err := p.OS.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.exited
	return nil
}

// Stop asks the process to end and waits for it, but not for ever.
func (p *Process) Stop(wait time.Duration) error {
	_ = p.stdin.Close() // fails only if the process has ended
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.Crashed()
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within %v", p.Name, wait), p.Kill())
	}
}

// Crashed returns an error if the process ended with one and was not killed.
func (p *Process) Crashed() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	if !p.Killed.IsZero() || p.exitErr == nil {
		return nil
	}
	stderr, _ := os.ReadFile(p.stderrFile) // an empty text if it cannot be read
	return fmt.Errorf("%s ended: %w: %s", p.Name, p.exitErr, strings.TrimSpace(string(stderr)))
}
