package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dibs-queue/dibs"
)

// topModel is the live view: what is shown, and how it follows the keys and the
// database.
type topModel struct {
	topView
	ctx   context.Context
	db    jobTable
	every time.Duration
}

// topCall is how long one call to the database may take before top says so.
const topCall = 10 * time.Second

// Messages to the model.
type (
	lookedMsg struct {
		snap snapshot
		err  error
		next bool // this look was one of the regular ones: plan the next
	}
	lookMsg struct{}
	didMsg  struct {
		text string
		err  error
	}
)

// question is something to be confirmed before it is done.
type question struct {
	text string
	yes  tea.Cmd
}

func (m *topModel) Init() tea.Cmd { return m.look(true) }

// look reads a snapshot; regular looks follow one another, extra ones come between.
func (m *topModel) look(regular bool) tea.Cmd {
	query := topQuery{queue: m.only, job: m.job}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topCall)
		defer cancel()
		s, err := look(ctx, m.db, query)
		return lookedMsg{snap: s, err: err, next: regular}
	}
}

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case lookMsg:
		return m, m.look(true)
	case lookedMsg:
		return m, m.looked(msg)
	case didMsg:
		m.note, m.problem = msg.text, msg.err
		return m, m.look(false)
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

func (m *topModel) looked(msg lookedMsg) tea.Cmd {
	current := msg.snap.query == topQuery{queue: m.only, job: m.job}
	switch {
	case msg.err != nil:
		m.problem = msg.err
	case current: // an answer to an older question would only flicker
		m.snap, m.seen = msg.snap, true
		if m.lookFailed {
			m.problem = nil
		}
		m.settle()
	}
	m.lookFailed = msg.err != nil
	if !msg.next {
		return nil
	}
	return tea.Tick(m.every, func(time.Time) tea.Msg { return lookMsg{} })
}

func (m *topModel) key(k string) tea.Cmd {
	if m.ask != nil {
		yes := m.ask.yes
		m.ask = nil
		if k == "y" || k == "Y" {
			return yes
		}
		m.note = "nothing was changed"
		return nil
	}
	m.note = ""
	if !m.lookFailed {
		m.problem = nil
	}
	switch k {
	case "q", "ctrl+c":
		return tea.Quit
	case "esc", "backspace", "left", "h":
		return m.back()
	case "enter", "right", "l":
		return m.open()
	case "tab":
		m.show((m.tab + 1) % m.tabs())
	case "shift+tab":
		m.show((m.tab + m.tabs() - 1) % m.tabs())
	case "1", "2", "3":
		m.show(min(topTab(k[0]-'1'), m.tabs()-1))
	case "p":
		m.pause()
	case "r":
		m.requeue()
	default:
		m.move(k)
	}
	return nil
}

// show changes to a tab; looking at one job ends with it.
func (m *topModel) show(t topTab) {
	m.tab, m.job, m.scroll = t, 0, 0
	m.settle()
}

// back leaves the job looked at, or else the queue that the lists are narrowed to.
func (m *topModel) back() tea.Cmd {
	switch {
	case m.job != 0:
		m.job, m.scroll = 0, 0
	case m.only != "":
		m.only = ""
		m.tab = tabQueues
		return m.look(false)
	}
	return nil
}

// open looks at the selected job, or at the jobs of the selected queue.
func (m *topModel) open() tea.Cmd {
	switch {
	case m.job != 0:
		return nil
	case m.tab == tabQueues && m.queue != "":
		m.only = m.queue
		m.show(tabRunning)
	case m.tab != tabQueues && m.selectedJob() != nil:
		m.job, m.scroll = m.selectedJob().ID, 0
		m.snap.job = m.selectedJob()
	}
	return m.look(false)
}

// pause asks whether to pause or resume the selected queue.
func (m *topModel) pause() {
	db, own := m.db.(dibs.Database)
	if !own {
		m.note = "an adopted table cannot be paused: stop its workers"
		return
	}
	if m.tab != tabQueues || len(m.snap.queues) == 0 {
		m.note = "select a queue to pause or resume it"
		return
	}
	q := m.snap.queues[m.at[tabQueues]]
	verb, done, pause := "pause", "paused", !q.Paused
	if q.Paused {
		verb, done = "resume", "resumed"
	}
	name := printable(q.Queue)
	m.ask = &question{
		text: fmt.Sprintf("%s queue %s?", verb, name),
		yes: m.do(fmt.Sprintf("queue %s %s", name, done), func(ctx context.Context) error {
			_, err := db.SetQueue(ctx, q.Queue, dibs.QueueChange{Paused: &pause})
			return err
		}),
	}
}

// requeue asks whether to requeue the selected dead job, or the one looked at.
func (m *topModel) requeue() {
	if m.app.adopted != nil {
		m.note = "rows of an adopted table are put back with SQL"
		return
	}
	job := m.selectedJob()
	if m.job != 0 {
		job = m.snap.job
	}
	if job == nil || job.State != dibs.Dead {
		m.note = "select a dead job to requeue it"
		return
	}
	m.ask = &question{
		text: fmt.Sprintf("requeue dead job %d?", job.ID),
		yes: m.do(fmt.Sprintf("job %d requeued", job.ID), func(ctx context.Context) error {
			ids, err := m.db.Requeue(ctx, []int64{job.ID})
			if err == nil && len(ids) == 0 {
				return fmt.Errorf("job %d was not dead any more; nothing was changed", job.ID)
			}
			return err
		}),
	}
}

func (m *topModel) do(done string, f func(context.Context) error) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topCall)
		defer cancel()
		if err := f(ctx); err != nil {
			return didMsg{err: err}
		}
		return didMsg{text: done}
	}
}

// move moves the selection, or scrolls the job looked at.
func (m *topModel) move(k string) {
	steps := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.body(), "pgdown": m.body(),
		"home": -1 << 20, "g": -1 << 20, "end": 1 << 20, "G": 1 << 20,
	}
	by, ok := steps[k]
	switch {
	case !ok:
	case m.job != 0:
		most := max(0, len(m.detail())-m.body())
		m.scroll = min(max(0, m.scroll+by), most)
	default:
		m.at[m.tab] += by
		m.keep()
	}
}

func (m *topModel) View() tea.View {
	v := tea.NewView(safeText(strings.Join(m.draw(), "\n"), m.app.color))
	v.AltScreen = true
	v.WindowTitle = "dibs top"
	return v
}
