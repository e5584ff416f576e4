package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/screens"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/lab/workload"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	xterm "golang.org/x/term"
)

// benchScreen shows the progress of the bench: a bar on stderr if that is a terminal, else
// a line for each measurement.
type benchScreen struct {
	a       *app
	rounds  int
	total   time.Duration // estimated duration of all measurements
	stopBar chan struct{} // nil: there is no bar
	ended   chan struct{}

	mu       sync.Mutex // guards the fields below, which the bar shows
	finished time.Duration
	current  workload.Workload
	begun    time.Time
}

// newBenchScreen prints the plan and its estimated duration.
func (a *app) newBenchScreen(where string, list []workload.Workload, o *benchOptions) *benchScreen {
	s := &benchScreen{a: a, rounds: o.rounds}
	for _, w := range list {
		s.total += w.Takes * time.Duration(o.rounds)
	}
	out := a.Stdout
	if a.JSON {
		out = a.Stderr
	}
	rough := ""
	if o.scale < 0.5 {
		rough = fmt.Sprintf("; figures are rough at --scale %v", o.scale)
	}
	fmt.Fprintf(out, "dibs bench: %s, about %s, %s%s\n", words.Plural(len(list), "workload"), words.Roughly(s.total), where, rough)
	if a.ErrTTY {
		s.stopBar, s.ended = make(chan struct{}), make(chan struct{})
		go s.draw()
	}
	return s
}

// begin is called before each measurement, end after it.
func (s *benchScreen) begin(w workload.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.ID != "" {
		s.finished += s.current.Takes
	}
	s.current, s.begun = w, time.Now()
}

func (s *benchScreen) end(w workload.Workload, round int, m workload.Measured) {
	if s.stopBar != nil || s.a.JSON {
		return
	}
	which := ""
	if s.rounds > 1 {
		which = fmt.Sprintf(", %d of %d", round+1, s.rounds)
	}
	first := w.Rows[0]
	s.a.Say("%-4s %s%s: %s: %s", w.ID, w.Name, which, first.Name, strings.TrimSpace(workload.Short(m.Figures[first.Key])+" "+first.Unit))
}

// close removes the bar.
func (s *benchScreen) close() {
	if s.stopBar != nil {
		close(s.stopBar)
		<-s.ended
	}
}

func (s *benchScreen) draw() {
	defer close(s.ended)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.stopBar:
			fmt.Fprint(s.a.ErrScreen, "\r\x1b[2K")
			return
		case <-tick.C:
			fmt.Fprintf(s.a.ErrScreen, "\r\x1b[2K%s", term.Clip(s.line(time.Now()), s.width()-3)) // leaves room for "^C"
		}
	}
}

// width reads the terminal's width for each drawing, since a wrapped line cannot be redrawn.
func (s *benchScreen) width() int {
	if f, ok := s.a.ErrScreen.(*os.File); ok {
		if w, _, err := xterm.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return s.a.Width
}

func (s *benchScreen) line(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.finished
	if s.current.ID != "" {
		done += min(now.Sub(s.begun), s.current.Takes) // the bar stops when the estimate is over
	}
	part := float64(done) / float64(s.total)
	full, rest := screens.Bar(part, 20)
	return fmt.Sprintf("%s%s %3.0f %%  about %s left  %s %s", full, rest, 100*part, wire.FormatDuration((s.total - done).Round(time.Second)), s.current.ID, s.current.Name)
}
