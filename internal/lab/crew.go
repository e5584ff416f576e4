package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Killed is how records call what Kill and Replace do. Package history knows the word "killed".
const Killed = "killed (SIGKILL)"

// Crew is the processes of a run. One goroutine at a time may add seats.
type Crew struct {
	Dir    string                // the folder for the stderr of each process
	Launch func(*exec.Cmd) error // starts a command; nil: its own Start
	Rec    *history.Recorder     // records what is done to processes; nil: no records are kept
	Seats  []*Seat
}

// Seat is the place of one process. When the process is killed, another can take its seat. Many
// goroutines may use a seat.
type Seat struct {
	Name string

	crew    *Crew
	command func(client string, nth int) (*exec.Cmd, error)

	acting  sync.Mutex // held while something is done to the process
	nth     int        // how many processes the seat has had
	mu      sync.Mutex // guards process
	process *Process
}

// Add adds a seat. The function command returns its nth process, from 1, under the name client: that
// is the seat's name, and later for example worker-1.2.
func (c *Crew) Add(name string, command func(client string, nth int) (*exec.Cmd, error)) *Seat {
	s := &Seat{Name: name, crew: c, command: command}
	c.Seats = append(c.Seats, s)
	return s
}

// Start starts a process in each seat that has not had one.
func (c *Crew) Start() error {
	for _, s := range c.Seats {
		if s.nth == 0 {
			if err := s.Start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start starts the seat's next process.
func (s *Seat) Start() error {
	s.nth++
	client := s.Name
	if s.nth > 1 {
		client = fmt.Sprintf("%s.%d", s.Name, s.nth)
	}
	cmd, err := s.command(client, s.nth)
	if err != nil {
		return err
	}
	p, err := Start(client, s.crew.Dir, cmd, s.crew.Launch)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
	return nil
}

// Process returns the seat's latest process.
func (s *Seat) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Kill kills the seat's process at its work. Like Replace and Suspend it does nothing, and returns
// false, if another call acts on the process; one that has crashed before is an error.
func (s *Seat) Kill() (bool, error) {
	return s.act(Killed, func(p *Process) error { return p.Kill() }, nil)
}

// Replace kills the seat's process, and starts another.
func (s *Seat) Replace() (bool, error) {
	return s.act(Killed, func(p *Process) error { return p.Kill() }, s.Start)
}

// Suspend stops the seat's process for some time, or until ctx ends, and continues it.
func (s *Seat) Suspend(ctx context.Context, d time.Duration) (bool, error) {
	return s.act(fmt.Sprintf("stopped (SIGSTOP) for %v", d.Round(time.Millisecond)), func(p *Process) error {
		if err := suspend(p.OS); err != nil {
			return err
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		return resume(p.OS)
	}, nil)
}

// act calls do with the process, records that as text, and then calls then, which may be nil.
func (s *Seat) act(text string, do func(*Process) error, then func() error) (bool, error) {
	if !s.acting.TryLock() {
		return false, nil
	}
	defer s.acting.Unlock()
	p := s.Process()
	err := p.Crashed()
	switch {
	case err != nil:
	case s.crew.Rec == nil:
		err = do(p)
	default:
		err = s.crew.Rec.Fault(p.Name, text, func() error { return do(p) })
	}
	if err == nil && then != nil {
		err = then()
	}
	return true, err
}

// Replaced returns how many processes another has replaced.
func (c *Crew) Replaced() (n int) {
	for _, s := range c.Seats {
		n += max(s.nth-1, 0)
	}
	return n
}

// Crashed returns an error if a process has ended by itself. It leaves out those on which another call acts.
func (c *Crew) Crashed() error {
	for _, s := range c.Seats {
		if !s.acting.TryLock() {
			continue
		}
		var err error
		if p := s.Process(); p != nil {
			err = p.Crashed()
		}
		s.acting.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// KillInTurn kills the seats' processes one after the other, with a pause before each, for as long as
// it lasts. Another process takes the seat of each. It returns how many it killed.
func (c *Crew) KillInTurn(pause, lasts time.Duration) (kills int, err error) {
	for end := time.Now().Add(lasts); err == nil && time.Now().Before(end); kills++ {
		time.Sleep(pause)
		_, err = c.Seats[kills%len(c.Seats)].Replace()
	}
	return kills, err
}

// Stop asks the processes of all seats, or of those that a function selects, to end, and waits for
// them, but not for ever.
func (c *Crew) Stop(wait time.Duration, which ...func(*Seat) bool) error {
	errs := make([]error, len(c.Seats))
	var group sync.WaitGroup
	for i, s := range c.Seats {
		p := s.Process()
		if p == nil || !p.Killed.IsZero() || len(which) > 0 && !which[0](s) {
			continue
		}
		group.Go(func() { errs[i] = p.Stop(wait) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// KillAll kills the processes that a run has left when it ends early.
func (c *Crew) KillAll() {
	for _, s := range c.Seats {
		if p := s.Process(); p != nil {
			_ = p.Kill() // the run ends in any case
		}
	}
}
