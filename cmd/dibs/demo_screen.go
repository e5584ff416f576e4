package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dibs-queue/dibs/internal/demo"
)

// demoScreen shows how far the demo has come.
type demoScreen interface {
	watch(demo.Progress)
	close()
}

func (a *app) newDemoScreen(jobs int, place *demoPlace, cancel context.CancelFunc) demoScreen {
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
func (silentScreen) close()              {}

// plainScreen writes a line a second, and one for each event.
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

func (s *plainScreen) close() {}

// liveScreen redraws one picture in place. The last one stays above the verdict.
type liveScreen struct {
	program *tea.Program
	ended   chan struct{}
}

func (a *app) newLiveScreen(v *demoView, cancel context.CancelFunc) *liveScreen {
	s := &liveScreen{
		program: tea.NewProgram(demoModel{view: v, cancel: cancel}, tea.WithOutput(a.stdout), tea.WithoutSignalHandler()),
		ended:   make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		if _, err := s.program.Run(); err != nil {
			cancel() // without a screen there is no demo
		}
	}()
	return s
}

func (s *liveScreen) watch(p demo.Progress) { s.program.Send(p) }

func (s *liveScreen) close() {
	s.program.Quit()
	<-s.ended
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

func (v *demoView) draw(p demo.Progress) string {
	var b strings.Builder
	line := func(s string) { b.WriteString("  " + s + "\n") }
	line(v.paint(bold, "dibs demo") + "  " + v.paint(faint, v.title))
	line("")
	if p.Jobs == 0 {
		line("enqueueing …")
		return b.String()
	}
	done := p.Stats.Completed + p.Stats.Dead + p.Stats.Cancelled
	line(fmt.Sprintf("%s %s of %s jobs   %.1f s",
		v.bar(green, p.Done(), 40), v.paint(bold, count(done)), count(int64(p.Jobs)), p.Elapsed.Seconds()))
	line("")
	line(v.counts(p))
	line("")
	most := 1
	for _, w := range p.Workers {
		most = max(most, w.Completed)
	}
	for _, w := range p.Workers {
		line(v.worker(w, most))
	}
	line("")
	for _, e := range p.Events {
		line(v.paint(faint, fmt.Sprintf("%5.1f s", e.At.Seconds())) + "  " + clip(e.Text, max(v.width-12, 20)))
	}
	return b.String()
}

func (v *demoView) counts(p demo.Progress) string {
	s := p.Stats
	parts := []string{
		v.count("waiting", s.Waiting, plain), v.count("blocked by their group", s.Blocked, yellow),
		v.count("running", s.Running, cyan), v.count("completed", s.Completed, green), v.count("dead", s.Dead, red),
	}
	return strings.Join(parts, v.paint(faint, " · "))
}

func (v *demoView) count(name string, n int64, st style) string {
	return v.paint(faint, name) + " " + v.paint(st, count(n))
}

func (v *demoView) worker(w demo.WorkerProgress, most int) string {
	st, now := cyan, fmt.Sprintf("%d running", w.Running)
	if w.Killed {
		st = red
		now = v.paint(red, "killed")
		if w.Held > 0 {
			now += fmt.Sprintf(" holding %s; %d run elsewhere", plural(w.Held, "job"), w.Recovered)
		}
	}
	return fmt.Sprintf("%s %s %5s done   %s", w.Name, v.bar(st, float64(w.Completed)/float64(most), 20), count(int64(w.Completed)), now)
}

// bar is a bar of the given width in columns, filled to a part of 0 to 1, in eighths
// of a column.
func (v *demoView) bar(st style, part float64, width int) string {
	eighths := int(part*float64(width)*8 + 0.5)
	eighths = min(max(eighths, 0), width*8)
	full := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		full += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return v.paint(st, full) + v.paint(faint, strings.Repeat("░", width-(eighths+7)/8))
}
