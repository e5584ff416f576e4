package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// topModel is the live view, which follows the keys and the database.
type topModel struct {
	topView
	ctx      context.Context
	db       cmdline.JobTable
	interval time.Duration
}

// topCallLimit is the time limit of a call to the database.
const topCallLimit = 10 * time.Second

// Messages to the model.
type (
	snapshotMsg struct {
		snap    snapshot
		err     error
		regular bool // a regular snapshot: schedule the next one
	}
	refreshMsg struct{}
	doneMsg    struct {
		text string
		err  error
	}
)

// question asks the user to confirm an action.
type question struct {
	text string
	yes  tea.Cmd
}

func (m *topModel) Init() tea.Cmd { return m.refresh(true) }

// refresh reads a snapshot. Regular ones follow one another; others come in between.
func (m *topModel) refresh(regular bool) tea.Cmd {
	query := topQuery{queue: m.queueFilter, job: m.openedJob}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topCallLimit)
		defer cancel()
		s, err := readSnapshot(ctx, m.db, query)
		return snapshotMsg{snap: s, err: err, regular: regular}
	}
}

func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case refreshMsg:
		return m, m.refresh(true)
	case snapshotMsg:
		return m, m.showSnapshot(msg)
	case doneMsg:
		m.news, m.problem = msg.text, msg.err
		return m, m.refresh(false)
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

func (m *topModel) showSnapshot(msg snapshotMsg) tea.Cmd {
	current := msg.snap.query == topQuery{queue: m.queueFilter, job: m.openedJob}
	switch {
	case msg.err != nil:
		m.problem = msg.err
	case current: // the snapshot of an older query would only flicker
		m.snap, m.hasSnapshot = msg.snap, true
		if m.snapshotFailed {
			m.problem = nil
		}
		m.restoreSelection()
	}
	m.snapshotFailed = msg.err != nil
	if !msg.regular {
		return nil
	}
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return refreshMsg{} })
}

func (m *topModel) key(k string) tea.Cmd {
	if m.question != nil {
		yes := m.question.yes
		m.question = nil
		if k == "y" || k == "Y" {
			return yes
		}
		m.news = "nothing was changed"
		return nil
	}
	m.news = ""
	if !m.snapshotFailed {
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

// show changes to a tab and closes the opened job.
func (m *topModel) show(t topTab) {
	m.tab, m.openedJob, m.scroll = t, 0, 0
	m.restoreSelection()
}

// back closes the opened job, or else removes the filter by queue.
func (m *topModel) back() tea.Cmd {
	switch {
	case m.openedJob != 0:
		m.openedJob, m.scroll = 0, 0
	case m.queueFilter != "":
		m.queueFilter = ""
		m.tab = tabQueues
		return m.refresh(false)
	}
	return nil
}

// open opens the selected job, or filters by the selected queue.
func (m *topModel) open() tea.Cmd {
	switch {
	case m.openedJob != 0:
		return nil
	case m.tab == tabQueues && m.selectedQueue != "":
		m.queueFilter = m.selectedQueue
		m.show(tabRunning)
	case m.tab != tabQueues && m.selectedJob() != nil:
		m.openedJob, m.scroll = m.selectedJob().ID, 0
		m.snap.job = m.selectedJob()
	}
	return m.refresh(false)
}

// pause asks whether to pause or resume the selected queue.
func (m *topModel) pause() {
	db, own := m.db.(interface {
		ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error)
	})
	if !own {
		m.news = "an adopted table cannot be paused: stop its workers"
		return
	}
	if m.tab != tabQueues || len(m.snap.queues) == 0 {
		m.news = "select a queue to pause or resume it"
		return
	}
	q := m.snap.queues[m.selectedRow[tabQueues]]
	verb, done, pause := "pause", "paused", !q.Paused
	if q.Paused {
		verb, done = "resume", "resumed"
	}
	name := words.Printable(q.Queue)
	m.question = &question{
		text: fmt.Sprintf("%s queue %s?", verb, name),
		yes: m.do(fmt.Sprintf("queue %s %s", name, done), func(ctx context.Context) error {
			if _, err := db.ChangeQueue(ctx, q.Queue, dibs.QueueChange{Paused: &pause}.Apply); err != nil {
				return err
			}
			return cmdline.NoteChange(ctx, db, verb, 1, "queue "+q.Queue)
		}),
	}
}

// requeue asks whether to requeue the selected dead job, or the opened one.
func (m *topModel) requeue() {
	db, own := m.db.(interface {
		Requeue(ctx context.Context, ids []int64, until time.Time) ([]int64, error)
	})
	if !own {
		m.news = "rows of an adopted table are requeued with SQL"
		return
	}
	job := m.selectedJob()
	if m.openedJob != 0 {
		job = m.snap.job
	}
	if job == nil || job.State != dibs.Dead {
		m.news = "select a dead job to requeue it"
		return
	}
	m.question = &question{
		text: fmt.Sprintf("requeue dead job %d?", job.ID),
		yes: m.do(fmt.Sprintf("job %d requeued", job.ID), func(ctx context.Context) error {
			ids, err := db.Requeue(ctx, []int64{job.ID}, time.Time{})
			if err == nil && len(ids) == 0 {
				return fmt.Errorf("job %d was not dead any more; nothing was changed", job.ID)
			}
			if err != nil {
				return err
			}
			return cmdline.NoteChange(ctx, m.db, "requeue", len(ids), fmt.Sprint("job ", job.ID))
		}),
	}
}

func (m *topModel) do(done string, f func(context.Context) error) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, topCallLimit)
		defer cancel()
		if err := f(ctx); err != nil {
			return doneMsg{err: err}
		}
		return doneMsg{text: done}
	}
}

// move moves the selection, or scrolls the opened job.
func (m *topModel) move(k string) {
	steps := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.body(), "pgdown": m.body(),
		"home": -1 << 20, "g": -1 << 20, "end": 1 << 20, "G": 1 << 20,
	}
	by, ok := steps[k]
	switch {
	case !ok:
	case m.openedJob != 0:
		most := max(0, len(m.detail())-m.body())
		m.scroll = min(max(0, m.scroll+by), most)
	default:
		m.selectedRow[m.tab] += by
		m.keepSelection()
	}
}

func (m *topModel) View() tea.View {
	v := tea.NewView(term.SafeText(strings.Join(m.draw(), "\n"), m.app.Color))
	v.AltScreen = true
	v.WindowTitle = "dibs top"
	return v
}
