package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// streams are the pipes to and from one program. They are not left to exec.Cmd, whose Wait
// lasts until nobody holds them any more: a process that the program has left behind may hold
// them for hours.
type streams struct {
	theirs []*os.File    // stdin, stdout and stderr of the program; closed here once it has them
	ours   []*os.File    // the other ends, in the same order
	to     []io.Writer   // what stdout and stderr are copied to
	read   chan struct{} // closed when nothing is copied any more
}

func openStreams() (*streams, error) {
	s := &streams{}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			s.close(s.theirs)
			s.close(s.ours)
			return nil, err
		}
		if len(s.theirs) == 0 { // stdin
			r, w = w, r
		}
		s.theirs, s.ours = append(s.theirs, w), append(s.ours, r)
	}
	return s, nil
}

func (s *streams) close(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // a pipe has nothing left to write
	}
}

// start starts the program by the given function, feeds it, and begins to read what it writes.
func (s *streams) start(cmd *exec.Cmd, start func(*exec.Cmd) error, input []byte, out, errs io.Writer) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.theirs[0], s.theirs[1], s.theirs[2]
	err := start(cmd)
	s.close(s.theirs)
	if err != nil {
		s.close(s.ours)
		return err
	}
	// A program need not read its input, and then the pipe breaks. What cannot be read any
	// more is not missed either: the exit code tells how the program ended.
	go func() {
		_, _ = s.ours[0].Write(input)
		_ = s.ours[0].Close()
	}()
	var reading sync.WaitGroup
	s.to = []io.Writer{out, errs}
	for i, to := range s.to {
		reading.Go(func() { _, _ = io.Copy(to, s.ours[i+1]) })
	}
	s.read = make(chan struct{})
	go func() {
		reading.Wait()
		close(s.read)
	}()
	return nil
}

// drain waits until nobody can write any more and everything is read, but not for longer than d.
// The end of enough cuts it short.
func (s *streams) drain(d time.Duration, enough <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.read:
	case <-timer.C:
	case <-enough:
	}
}

// end reads what has been written by now and closes the pipes, whoever holds the other ends.
func (s *streams) end() {
	for _, f := range s.ours[1:] {
		if err := f.SetReadDeadline(time.Now()); err != nil { // the system knows none for pipes
			_ = f.Close()
		}
	}
	<-s.read
	for i, f := range s.ours[1:] {
		readRest(f, s.to[i])
	}
	s.close(s.ours)
}

// hasEnded reports whether the process has ended and been waited for.
func hasEnded(p *os.Process) bool {
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
