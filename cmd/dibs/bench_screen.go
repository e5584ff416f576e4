package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs/internal/workload"
	"golang.org/x/term"
)

// benchScreen shows how far the bench has come: a bar on stderr if that is a terminal,
// else a line for each measurement.
type benchScreen struct {
	a      *app
	rounds int
	total  time.Duration // that all takes, about
	stop   chan struct{} // nil: there is no bar
	ended  chan struct{}

	mu    sync.Mutex // what the bar shows
	done  time.Duration
	now   workload.Workload
	since time.Time
}

// newBenchScreen says what is about to happen, and how long it takes.
func (a *app) newBenchScreen(where string, list []workload.Workload, o *benchOptions) *benchScreen {
	s := &benchScreen{a: a, rounds: o.rounds}
	for _, w := range list {
		s.total += w.Takes * time.Duration(o.rounds)
	}
	out := a.stdout
	if a.json {
		out = a.stderr
	}
	rough := ""
	if o.scale < 0.5 {
		rough = fmt.Sprintf("; figures are rough at --scale %v", o.scale)
	}
	fmt.Fprintf(out, "dibs bench: %s, about %s, %s%s\n", plural(len(list), "workload"), roughly(s.total), where, rough)
	if a.errTTY {
		s.stop, s.ended = make(chan struct{}), make(chan struct{})
		go s.draw()
	}
	return s
}

// begin is called before each measurement, end after it.
func (s *benchScreen) begin(w workload.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.ID != "" {
		s.done += s.now.Takes
	}
	s.now, s.since = w, time.Now()
}

func (s *benchScreen) end(w workload.Workload, round int, m workload.Measured) {
	if s.stop != nil || s.a.json {
		return
	}
	which := ""
	if s.rounds > 1 {
		which = fmt.Sprintf(", %d of %d", round+1, s.rounds)
	}
	first := w.Rows[0]
	s.a.say("%-4s %s%s: %s: %s", w.ID, w.Name, which, first.Name, strings.TrimSpace(workload.Short(m.Figures[first.Key])+" "+first.Unit))
}

// close takes the bar away.
func (s *benchScreen) close() {
	if s.stop != nil {
		close(s.stop)
		<-s.ended
	}
}

func (s *benchScreen) draw() {
	defer close(s.ended)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			fmt.Fprint(s.a.errScreen, "\r\x1b[2K")
			return
		case <-tick.C:
			fmt.Fprintf(s.a.errScreen, "\r\x1b[2K%s", clip(s.line(time.Now()), s.width()-3)) // and "^C"
		}
	}
}

// width is asked for each time: a line that is broken cannot be drawn over.
func (s *benchScreen) width() int {
	if f, ok := s.a.errScreen.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return s.a.width
}

func (s *benchScreen) line(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.done
	if s.now.ID != "" {
		done += min(now.Sub(s.since), s.now.Takes) // what takes longer than thought stands still
	}
	part := float64(done) / float64(s.total)
	return fmt.Sprintf("%s %3.0f %%  about %s left  %s %s", bar(unpainted, plain, part, 20), 100*part, formatDuration((s.total - done).Round(time.Second)), s.now.ID, s.now.Name)
}

func unpainted(_ style, s string) string { return s }
