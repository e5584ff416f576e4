package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/demo"
)

// demoScreen shows the progress of the demo.
type demoScreen interface {
	watch(demo.Progress)
	close() error // returns an error of the screen
}

func (a *app) newDemoScreen(jobs int, place *place, cancel context.CancelFunc) demoScreen {
	v := &demoView{
		paint: a.paint, width: a.width,
		title: fmt.Sprintf("%s · %d worker processes · %s", plural(jobs, "job"), demoWorkers, place.text),
	}
	switch {
	case a.json:
		return silentScreen{}
	case a.outTTY:
		return a.newLiveScreen(v, cancel)
	}
	fmt.Fprintf(a.stdout, "dibs demo: %s\n", v.title)
	return &plainScreen{a: a}
}

type silentScreen struct{}

func (silentScreen) watch(demo.Progress) {}
func (silentScreen) close() error        { return nil }

// plainScreen writes a line each second, and one for each event.
type plainScreen struct {
	a      *app
	last   time.Duration
	events int
}

func (s *plainScreen) watch(p demo.Progress) {
	for _, e := range p.Events[s.events:] {
		fmt.Fprintf(s.a.stdout, "%5.1f s  %s\n", e.At.Seconds(), e.Text)
	}
	s.events = len(p.Events)
	if p.Elapsed-s.last < time.Second && p.Done() < 1 {
		return
	}
	s.last = p.Elapsed
	fmt.Fprintf(s.a.stdout, "%5.1f s  %3.0f %%  completed %d, dead %d, running %d, waiting %d, blocked %d\n",
		p.Elapsed.Seconds(), 100*p.Done(), p.Stats.Completed, p.Stats.Dead, p.Stats.Running, p.Stats.Waiting, p.Stats.Blocked)
}

func (s *plainScreen) close() error { return nil }

// liveScreen redraws a picture in place. The last picture stays above the verdict.
type liveScreen struct {
	program *tea.Program
	ended   chan struct{} // closed when the view has ended and err is set
	err     error
}

func (a *app) newLiveScreen(v *demoView, cancel context.CancelFunc) *liveScreen {
	s := &liveScreen{
		program: tea.NewProgram(demoModel{view: v, cancel: cancel}, tea.WithOutput(a.screen), tea.WithoutSignalHandler()),
		ended:   make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		if _, s.err = s.program.Run(); s.err != nil {
			cancel() // the demo ends if its screen does
		}
	}()
	return s
}

func (s *liveScreen) watch(p demo.Progress) { s.program.Send(p) }

func (s *liveScreen) close() error {
	s.program.Quit()
	<-s.ended
	return s.err
}

type demoModel struct {
	view   *demoView
	cancel context.CancelFunc
	now    demo.Progress
}

func (m demoModel) Init() tea.Cmd { return nil }

func (m demoModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case demo.Progress:
		m.now = msg
	case tea.WindowSizeMsg:
		m.view.width = msg.Width
	case tea.KeyPressMsg:
		if k := msg.String(); k == "ctrl+c" || k == "q" {
			m.cancel()
		}
	}
	return m, nil
}

func (m demoModel) View() tea.View { return tea.NewView(m.view.draw(m.now)) }

// demoView draws the picture.
type demoView struct {
	paint func(style, string) string
	title string
	width int
}

// demoLines is the number of lines of every picture. The last line is empty, since the view
// wipes it at its end. A growing picture would make the terminal scroll and leave torn copies
// above.
const demoLines = 18

func (v *demoView) draw(p demo.Progress) string {
	lines := []string{v.paint(bold, "dibs demo") + "  " + v.paint(faint, v.title), ""}
	if p.Jobs == 0 {
		lines = append(lines, "enqueueing …")
	} else {
		lines = append(lines, v.total(p), "", v.counts(p.Stats), "")
		lines = append(lines, v.workers(p.Workers)...)
		lines = append(lines, "")
		for _, e := range p.Events {
			lines = append(lines, v.paint(faint, fmt.Sprintf("%5.1f s", e.At.Seconds()))+"  "+e.Text)
		}
	}
	for len(lines) < demoLines {
		lines = append(lines, "")
	}
	for i, l := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(v.width).Render(strings.TrimRight("  "+l, " "))
	}
	return strings.Join(lines, "\n")
}

func (v *demoView) total(p demo.Progress) string {
	done := p.Stats.Completed + p.Stats.Dead + p.Stats.Cancelled
	return fmt.Sprintf("%s %s of %s jobs   %.1f s",
		bar(v.paint, green, p.Done(), 40), v.paint(bold, count(done)), count(int64(p.Jobs)), p.Elapsed.Seconds())
}

func (v *demoView) counts(s dibs.QueueStats) string {
	return strings.Join([]string{
		v.count("waiting", s.Waiting, plain),
		v.count("blocked by group", s.Blocked, yellow),
		v.count("running", s.Running, cyan),
		v.count("completed", s.Completed, green),
		v.count("dead", s.Dead, red),
	}, "  ")
}

// workers draws a line for each worker, and leaves one for the successor of the killed worker.
func (v *demoView) workers(workers []demo.WorkerProgress) []string {
	most := 1
	for _, w := range workers {
		most = max(most, w.Completed)
	}
	lines := make([]string, max(demoWorkers+1, len(workers)))
	for i, w := range workers {
		lines[i] = v.worker(w, most)
	}
	return lines
}

func (v *demoView) count(name string, n int64, st style) string {
	return v.paint(faint, name) + " " + v.paint(st, count(n))
}

func (v *demoView) worker(w demo.WorkerProgress, most int) string {
	st, now := cyan, fmt.Sprintf("%d running", w.Running)
	if w.Killed {
		st, now = red, v.paint(red, "killed")
		if w.Held > 0 {
			now += fmt.Sprintf(" with %s, %d run elsewhere", plural(w.Held, "job"), w.Recovered)
		}
	}
	return fmt.Sprintf("%s %s %5s completed  %s",
		w.Name, bar(v.paint, st, float64(w.Completed)/float64(most), 16), count(int64(w.Completed)), now)
}

// bar draws a bar with the given number of columns. A part of it, from 0 to 1, is filled, in
// steps of an eighth of a column.
func bar(paint func(style, string) string, st style, part float64, width int) string {
	eighths := int(part*float64(width)*8 + 0.5)
	eighths = min(max(eighths, 0), width*8)
	full := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		full += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return paint(st, full) + paint(faint, strings.Repeat("░", width-(eighths+7)/8))
}
