// Package screens shows how a torture or its demo goes on, and its verdict.
package screens

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// Style is a terminal's SGR sequence, which precedes coloured text.
type Style string

const (
	plain  Style = ""
	bold   Style = "\x1b[1m"
	faint  Style = "\x1b[2m"
	red    Style = "\x1b[31m"
	green  Style = "\x1b[32m"
	yellow Style = "\x1b[33m"
	cyan   Style = "\x1b[36m"
)

// Screen shows one run: as a picture that changes in place on a terminal, else line by line.
type Screen struct {
	Name  string // the command, such as dibs demo
	Title string // what runs where
	// Total is how long the faults go on. 0: a demo, which ends with its jobs.
	Total     time.Duration
	Quiet     bool      // show only that the run was interrupted
	Out, Err  io.Writer // get lines
	Terminal  io.Writer // gets a picture in place of lines; nil: there is no terminal
	Color     bool
	Width     int    // columns of the terminal
	Interrupt func() // is called when a key on the terminal asks to end the run

	live     *live
	notes    int // how many notes have been written
	lastLine time.Duration
	told     bool // the message about the interrupt has been written
}

// Start shows what runs where. A torture says it on a line of its own, since its end in a picture
// could be cut off.
func (s *Screen) Start() {
	onTerminal := s.Terminal != nil && !s.Quiet
	if !s.Quiet && (!onTerminal || s.Total > 0) {
		fmt.Fprintf(s.Out, "%s: %s\n", s.Name, s.Title)
	}
	if onTerminal {
		s.startLive()
	}
}

const interrupted = "interrupted: no more faults. What was done is judged when the jobs have ended; interrupt again to give up."

// Watch shows the progress.
func (s *Screen) Watch(p torture.Progress) {
	if p.Interrupted && !s.told && s.live == nil {
		s.told = true
		fmt.Fprintln(s.Err, interrupted)
	}
	switch {
	case s.Quiet:
	case s.live != nil:
		s.live.program.Send(p)
	default:
		s.lines(&p)
	}
}

// lines writes a line for each note, and one about the progress: of a demo each second, else every 5 s.
func (s *Screen) lines(p *torture.Progress) {
	for _, n := range p.Notes[s.notes:] {
		fmt.Fprintf(s.Out, "%5.1f s  %s\n", n.At.Seconds(), n.Text)
	}
	s.notes = len(p.Notes)
	every := 5 * time.Second
	if s.Total == 0 {
		every = time.Second
	}
	if p.Elapsed-s.lastLine < every && (s.Total > 0 || p.Done() < 1) {
		return
	}
	s.lastLine = p.Elapsed
	text, sum := "no answer from the database", p.Counts()
	if p.Queues != nil {
		text = fmt.Sprintf("completed %d, dead %d, running %d, waiting %d, blocked %d", sum.Completed, sum.Dead, sum.Running, sum.Waiting, sum.Blocked)
	}
	if s.Total == 0 {
		fmt.Fprintf(s.Out, "%5.1f s  %3.0f %%  %s\n", p.Elapsed.Seconds(), 100*p.Done(), text)
		return
	}
	for _, f := range torture.FaultTexts {
		if n := p.Faults[f.Name]; n > 0 {
			text += fmt.Sprintf(" · %s %s", strings.ReplaceAll(f.Name, "_", " "), words.Count(int64(n)))
		}
	}
	fmt.Fprintf(s.Out, "%5.1f s of %s  %s: %s\n", p.Elapsed.Seconds(), wire.FormatDuration(s.Total), p.Stage, text)
}

// Close ends the picture, and returns an error of the terminal.
func (s *Screen) Close() error {
	if s.live == nil {
		return nil
	}
	s.live.program.Quit()
	<-s.live.ended
	return s.live.err
}

// paint colours text if that may be coloured.
func (s *Screen) paint(st Style, text string) string {
	if !s.Color || st == plain || text == "" {
		return text
	}
	return string(st) + text + "\x1b[0m"
}

// Bar draws a bar with the given number of columns, as its filled part and the rest. The part, from 0
// to 1, is filled in steps of an eighth of a column.
func Bar(part float64, width int) (full, rest string) {
	eighths := int(part*float64(width)*8 + 0.5)
	eighths = min(max(eighths, 0), width*8)
	full = strings.Repeat("█", eighths/8)
	if n := eighths % 8; n > 0 {
		full += string([]rune(" ▏▎▍▌▋▊▉")[n])
	}
	return full, strings.Repeat("░", width-(eighths+7)/8)
}
