package torture

import (
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/child"
)

// seat is the place of one worker or producer process. When the process is killed, another
// takes its seat.
type seat struct {
	part    Part
	proxy   *proxy                        // nil on SQLite
	command func(Part) (*exec.Cmd, error) // returns the command for a process
	launch  func(*exec.Cmd) error

	mu       sync.Mutex // held while a fault acts on the process
	restarts int
	process  *process
}

// process is one process of a seat.
type process struct {
	*child.Process
	client string
	cmd    *exec.Cmd
}

func (p *process) kill() error                  { return p.Kill() }
func (p *process) end(wait time.Duration) error { return p.Stop(wait) }
func (p *process) crashed() error               { return p.Crashed() }

// start starts the seat's next process.
func (s *seat) start() error {
	s.restarts++
	part := s.part
	part.Client = fmt.Sprintf("%s.%d", part.Name, s.restarts)
	part.Seed += uint64(s.restarts) << 32
	cmd, err := s.command(part)
	if err != nil {
		return err
	}
	p, err := child.Start(part.Client, part.Dir, cmd, s.launch)
	if err != nil {
		return err
	}
	s.process = &process{p, part.Client, cmd}
	return nil
}
