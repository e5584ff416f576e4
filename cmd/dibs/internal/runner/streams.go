package runner

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// streams are the pipes to and from one program. exec.Cmd does not manage them, since its
// Wait lasts until every process has closed them: one that outlives the program may hold
// them for hours.
type streams struct {
	programEnds []*os.File    // stdin, stdout and stderr of the program; this process closes them after the start
	ownEnds     []*os.File    // this process' ends, in the same order
	copyTo      []io.Writer   // targets of stdout and stderr
	drained     chan struct{} // closed when all copying has ended
}

func openStreams() (*streams, error) {
	s := &streams{}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			s.close(s.programEnds)
			s.close(s.ownEnds)
			return nil, err
		}
		if len(s.programEnds) == 0 { // the first pipe is stdin
			r, w = w, r
		}
		s.programEnds, s.ownEnds = append(s.programEnds, w), append(s.ownEnds, r)
	}
	return s, nil
}

func (s *streams) close(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // closing a pipe cannot lose data
	}
}

// stdin is this process' end of the program's stdin.
func (s *streams) stdin() *os.File { return s.ownEnds[0] }

// feed writes the program's whole input. A program need not read it, and then the pipe breaks.
func (s *streams) feed(input []byte) {
	_, _ = s.stdin().Write(input)
	_ = s.stdin().Close()
}

// start starts the program with the given function, and begins to read its output. A writer that
// is an io.Closer is closed when the program, and all that has the pipe, has closed it.
func (s *streams) start(cmd *exec.Cmd, start func(*exec.Cmd) error, out, errs io.Writer) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.programEnds[0], s.programEnds[1], s.programEnds[2]
	err := start(cmd)
	s.close(s.programEnds)
	if err != nil {
		s.close(s.ownEnds)
		return err
	}
	// Errors of reading do not matter: the exit code tells how the program ended.
	var reading sync.WaitGroup
	s.copyTo = []io.Writer{out, errs}
	for i, to := range s.copyTo {
		reading.Go(func() {
			_, err := io.Copy(to, s.ownEnds[i+1])
			if closer, ok := to.(io.Closer); ok && err == nil {
				_ = closer.Close()
			}
		})
	}
	s.drained = make(chan struct{})
	go func() {
		reading.Wait()
		close(s.drained)
	}()
	return nil
}

// drain waits until all writers have closed the pipes and everything is read, but not for
// longer than d, nor after cancelled is closed.
func (s *streams) drain(d time.Duration, cancelled <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.drained:
	case <-timer.C:
	case <-cancelled:
	}
}

// end reads what was written until now and closes the pipes, even if other processes hold them.
func (s *streams) end() {
	for _, f := range s.ownEnds[1:] {
		if err := f.SetReadDeadline(time.Now()); err != nil { // the system has no deadlines for pipes
			_ = f.Close()
		}
	}
	<-s.drained
	for i, f := range s.ownEnds[1:] {
		readRest(f, s.copyTo[i])
	}
	s.close(s.ownEnds)
}

// hasEnded reports whether the process has ended, after Wait.
func hasEnded(p *os.Process) bool {
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
