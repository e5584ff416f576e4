package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs/internal/lab/torture"
	"github.com/dibs-queue/dibs/internal/wire"
)

// tortureScreen shows the progress of the torture: on a terminal one line that changes,
// else a line every few seconds.
type tortureScreen struct {
	a           *app
	total       time.Duration
	lastLine    time.Duration
	drawn       bool
	interrupted bool // the message about the interrupt has been printed
}

func (a *app) newTortureScreen(o tortureOptions, p *place) *tortureScreen {
	if !a.json {
		beside := "2 producers"
		if a.table != "" {
			beside = "another program"
		}
		fmt.Fprintf(a.stdout, "dibs torture: %s, %s, seed %d, %s\n", plural(o.workers, "worker"), beside, o.seed, p.text)
	}
	return &tortureScreen{a: a, total: o.duration}
}

func (s *tortureScreen) watch(p torture.Progress) {
	const every = 5 * time.Second
	if p.Interrupted && !s.interrupted {
		s.interrupted = true
		s.close()
		fmt.Fprintln(s.a.stderr, "interrupted: no more faults. What was done is judged when the jobs have ended; interrupt again to give up.")
	}
	switch parts := s.parts(p); {
	case s.a.json:
	case s.a.outTTY:
		fmt.Fprintf(s.a.screen, "\r\x1b[2K%s", joinWithin(parts, s.a.width-1))
		s.drawn = true
	case p.Elapsed-s.lastLine >= every:
		s.lastLine = p.Elapsed
		fmt.Fprintln(s.a.stdout, joinWithin(parts, math.MaxInt))
	}
}

func (s *tortureScreen) parts(p torture.Progress) []string {
	var live, ended int64
	for _, q := range p.Queues {
		live += q.Waiting + q.Blocked + q.Running
		ended += q.Completed + q.Dead + q.Cancelled
	}
	parts := []string{fmt.Sprintf("%4.0f s of %s", p.Elapsed.Seconds(), wire.FormatDuration(s.total)), p.Stage}
	if p.Queues == nil {
		parts = append(parts, "no answer from the database")
	} else {
		parts = append(parts, fmt.Sprintf("%s ended, %s live", plural(int(ended), "job"), count(live)))
	}
	for _, f := range torture.FaultTexts {
		if n := p.Faults[f.Name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", strings.ReplaceAll(f.Name, "_", " "), count(int64(n))))
		}
	}
	return parts
}

// joinWithin joins as many of the first parts as fit into a line.
func joinWithin(parts []string, width int) string {
	const between = " · "
	line := parts[0]
	for _, p := range parts[1:] {
		if lipgloss.Width(line+between+p) > width {
			break
		}
		line += between + p
	}
	return line
}

// close moves the cursor to a new line.
func (s *tortureScreen) close() {
	if s.drawn {
		fmt.Fprintln(s.a.stdout)
	}
	s.drawn = false
}
