package screens

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// live redraws a picture in place. The last picture stays above the verdict.
type live struct {
	program *tea.Program
	ended   chan struct{} // closed when the picture has ended and err is set
	err     error
}

func (s *Screen) startLive() {
	l := &live{
		program: tea.NewProgram(model{screen: s}, tea.WithOutput(s.Terminal), tea.WithoutSignalHandler()),
		ended:   make(chan struct{}),
	}
	s.live = l
	go func() {
		defer close(l.ended)
		if _, l.err = l.program.Run(); l.err != nil {
			s.Interrupt() // the run ends if its screen does
		}
	}()
}

// model is what the picture shows. Only the goroutine of the program uses it.
type model struct {
	screen *Screen
	now    torture.Progress
}

func (m model) Init() tea.Cmd { return nil }

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case torture.Progress:
		m.now = msg
	case tea.WindowSizeMsg:
		m.screen.Width = msg.Width
	case tea.KeyPressMsg:
		if k := msg.String(); k == "ctrl+c" || k == "q" {
			m.screen.Interrupt()
		}
	}
	return m, nil
}

func (m model) View() tea.View { return tea.NewView(m.screen.draw(&m.now)) }

// How many lines every picture has. The last line is empty, since the view wipes it at its end. A
// growing picture would make the terminal scroll and leave torn copies above.
const (
	demoLines    = 18
	tortureLines = 17
)

func (s *Screen) draw(p *torture.Progress) string {
	var lines []string
	height := tortureLines
	if s.Total == 0 {
		height = demoLines
		lines = append(lines, s.paint(bold, s.Name)+"  "+s.paint(faint, s.Title))
	}
	lines = append(lines, "")
	switch {
	case p.Elapsed == 0 && s.Total == 0:
		lines = append(lines, "enqueueing …")
	case p.Elapsed == 0:
		lines = append(lines, "starting …")
	default:
		lines = append(lines, s.far(p), "", s.counts(p), "")
		if s.Total == 0 {
			lines = append(append(lines, s.workers(p.Workers)...), "")
		}
		lines = append(lines, s.happened(p)...)
	}
	for len(lines) < height {
		lines = append(lines, "")
	}
	for i, l := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(s.Width).Render(strings.TrimRight("  "+l, " "))
	}
	return strings.Join(lines, "\n")
}

// far says how far the run has come: a demo by its jobs, a torture by the time.
func (s *Screen) far(p *torture.Progress) string {
	if s.Total > 0 {
		part := min(float64(p.Elapsed)/float64(s.Total), 1)
		return fmt.Sprintf("%s %.0f s of %s   %s", s.bar(cyan, part, 40), p.Elapsed.Seconds(), wire.FormatDuration(s.Total), s.paint(bold, p.Stage))
	}
	return fmt.Sprintf("%s %s of %s jobs   %.1f s",
		s.bar(green, p.Done(), 40), s.paint(bold, words.Count(p.Ended())), words.Count(int64(p.Jobs)), p.Elapsed.Seconds())
}

func (s *Screen) bar(st Style, part float64, width int) string {
	full, rest := Bar(part, width)
	return s.paint(st, full) + s.paint(faint, rest)
}

func (s *Screen) counts(p *torture.Progress) string {
	if p.Queues == nil {
		return "no answer from the database"
	}
	sum := p.Counts()
	count := func(name string, n int64, st Style) string {
		return s.paint(faint, name) + " " + s.paint(st, words.Count(n))
	}
	return strings.Join([]string{
		count("waiting", sum.Waiting, plain),
		count("blocked by group", sum.Blocked, yellow),
		count("running", sum.Running, cyan),
		count("completed", sum.Completed, green),
		count("dead", sum.Dead, red),
	}, "  ")
}

// happened lists the notes of a demo, or how often each fault of a torture has happened.
func (s *Screen) happened(p *torture.Progress) (lines []string) {
	for _, n := range p.Notes {
		lines = append(lines, s.paint(faint, fmt.Sprintf("%5.1f s", n.At.Seconds()))+"  "+n.Text)
	}
	for _, f := range torture.FaultTexts {
		if n := p.Faults[f.Name]; n > 0 && s.Total > 0 {
			lines = append(lines, fmt.Sprintf("%7s  %s", words.Count(int64(n)), s.paint(faint, f.Text)))
		}
	}
	if p.Interrupted {
		lines = append(lines, "interrupted: no more faults; interrupt again to give up without a verdict")
	}
	return lines
}

// workers draws a line for each worker, and leaves one for the successor of the killed worker.
func (s *Screen) workers(workers []torture.WorkerProgress) []string {
	most := 1
	for _, w := range workers {
		most = max(most, w.Completed)
	}
	lines := make([]string, max(torture.DemoWorkers+1, len(workers)))
	for i, w := range workers {
		lines[i] = s.worker(w, most)
	}
	return lines
}

func (s *Screen) worker(w torture.WorkerProgress, most int) string {
	st, now := cyan, fmt.Sprintf("%d running", w.Running)
	if w.Killed {
		st, now = red, s.paint(red, "killed")
		if w.Held > 0 {
			now += fmt.Sprintf(" with %s, %d run elsewhere", words.Plural(w.Held, "job"), w.Recovered)
		}
	}
	return fmt.Sprintf("%s %s %5s completed  %s",
		w.Name, s.bar(st, float64(w.Completed)/float64(most), 16), words.Count(int64(w.Completed)), now)
}
