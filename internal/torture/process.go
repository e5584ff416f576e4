package torture

import (
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/internal/child"
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
	cmd, err := s.make(part)
	if err != nil {
		return err
	}
	p, err := child.Start(part.Client, part.Dir, cmd, s.launch)
	if err != nil {
		return err
	}
	s.now = &process{p, part.Client, cmd}
	return nil
}
