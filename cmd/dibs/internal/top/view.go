package top

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// topTab is one of the three lists.
type topTab int

const (
	tabQueues topTab = iota
	tabRunning
	tabDead
	tabs
)

// topView is the state that the picture shows.
type topView struct {
	app           *app
	title         string
	width, height int
	snap          snapshot
	hasSnapshot   bool // false: before the first snapshot

	tab           topTab
	selectedRow   [tabs]int // selected row of each list
	selectedQueue string    // name, to find it again in the next snapshot
	selectedJobs  [tabs]int64
	queueFilter   string // the lists show only jobs of this queue; "": of all queues
	openedJob     int64  // id of the job shown instead of a list, or 0
	scroll        int    // number of the opened job's lines above the screen

	question       *question
	news           string // result of the last action
	problem        error
	snapshotFailed bool // the last snapshot failed because of problem
}

const linesAround = 6 // number of lines above and below the list

// tabs is the number of lists: not all adopted tables know dead jobs.
func (v *topView) tabs() topTab {
	if !v.app.Adopted.Knows("DEAD") {
		return tabDead
	}
	return tabs
}

// body is the number of lines of the list, including its heading.
func (v *topView) body() int { return max(v.height-linesAround, 1) }

func (v *topView) draw() []string {
	if v.width == 0 || v.height == 0 {
		return nil // the size of the terminal is not known yet
	}
	lines := []string{v.head(), v.totals(), "", v.tabLine(), ""}
	var list []string
	switch {
	case !v.hasSnapshot:
		list = []string{"  …"}
	case v.openedJob != 0:
		list = v.detail()
		list = list[min(v.scroll, len(list)):]
	default:
		list = v.list()
	}
	list = list[:min(len(list), v.body())]
	lines = append(lines, list...)
	for len(lines) < v.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:v.height-1], v.foot())
	for i, l := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(v.width).Render(l)
	}
	return lines
}

// head returns the title with, on the right, the time of the snapshot.
func (v *topView) head() string {
	clock := v.snap.at.Local().Format(time.TimeOnly)
	if !v.hasSnapshot {
		clock = ""
	}
	title := term.Clip(words.Printable(v.title), max(v.width-len("dibs top")-len(clock)-8, 1))
	left := "  " + v.app.Paint(term.Bold, "dibs top") + "  " + v.app.Paint(term.Faint, title)
	gap := max(v.width-lipgloss.Width(left)-len(clock)-2, 1)
	return left + strings.Repeat(" ", gap) + v.app.Paint(term.Faint, clock)
}

// totals adds up all queues.
func (v *topView) totals() string {
	var sum admin.QueueStats
	for _, q := range v.snap.queues {
		sum.Waiting += q.Waiting
		sum.Scheduled += q.Scheduled
		sum.ScheduledMore = sum.ScheduledMore || q.ScheduledMore
		sum.Blocked += q.Blocked
		sum.Running += q.Running
		sum.Dead += q.Dead
		sum.Throughput += q.Throughput
		sum.Window = max(sum.Window, q.Window)
	}
	part := func(name, n string, st term.Style) string {
		return v.app.Paint(term.Faint, name) + " " + v.app.Paint(st, n)
	}
	columns := []string{"WAITING", "LATER", "BLOCKED", "RUNNING", "DEAD", "JOBS/S"}
	return "  " + strings.Join(cmdline.KnownCells(v.app.Adopted, columns, []string{
		part("waiting", short(sum.Waiting), term.Plain),
		part("later", later(sum), term.Plain),
		part("blocked", short(sum.Blocked), nonzero(term.Yellow, sum.Blocked)),
		part("running", short(sum.Running), nonzero(term.Cyan, sum.Running)),
		part("dead", short(sum.Dead), nonzero(term.Red, sum.Dead)),
		part("jobs/s", v.app.Rate(sum), term.Plain),
	}), "  ")
}

func (v *topView) tabName(t topTab) string {
	plus := map[bool]string{true: "+"}
	switch t {
	case tabRunning:
		return fmt.Sprintf("Running %d%s", len(v.snap.running), plus[v.snap.runningMore])
	case tabDead:
		return fmt.Sprintf("Dead %d%s", len(v.snap.dead), plus[v.snap.deadMore])
	}
	return fmt.Sprintf("Queues %d", len(v.snap.queues))
}

func (v *topView) tabLine() string {
	line := " "
	for t := range v.tabs() {
		name := " " + v.tabName(t) + " "
		if t == v.tab {
			name = v.app.Paint(term.Bold, "["+name[1:len(name)-1]+"]")
		}
		line += name + " "
	}
	if v.queueFilter != "" {
		line += " " + v.app.Paint(term.Yellow, "only queue "+term.Clip(words.Printable(v.queueFilter), 30))
	}
	return line
}

// list returns the table of the tab, scrolled to the selection.
func (v *topView) list() []string {
	t := v.table(v.tab)
	if len(t.Rows) == 0 {
		return []string{"  " + v.app.Paint(term.Faint, empty[v.tab])}
	}
	at := v.selectedRow[v.tab]
	lines := v.drawList(t, v.width, at)
	rows := max(v.body()-1, 1)
	from := min(max(0, at-rows/2), max(0, len(t.Rows)-rows))
	return append(lines[:1:1], lines[1+from:min(1+from+rows, len(lines))]...)
}

// detail returns the opened job, as 'dibs show' writes it.
func (v *topView) detail() []string {
	if v.snap.job == nil || v.snap.job.ID != v.openedJob {
		return []string{fmt.Sprintf("  job %d is not there any more", v.openedJob)}
	}
	var text bytes.Buffer
	run := *v.app.App
	run.Stdout = &text
	jobs.WriteJob(&run, v.snap.job, jobs.HoldsOf(&run, &v.snap.why, v.snap.job))
	const maxBytes = 64 << 10 // bytes; more is too much for a screen
	if text.Len() > maxBytes {
		text.Truncate(maxBytes)
		fmt.Fprintf(&text, "…\n'dibs show %d' shows all of it", v.openedJob)
	}
	wrapped := lipgloss.Wrap(strings.TrimRight(text.String(), "\n"), max(v.width-4, 20), "")
	lines := strings.Split(wrapped, "\n")
	for i, l := range lines {
		lines[i] = "  " + l
	}
	return lines
}

// foot returns the question, the news or the keys.
func (v *topView) foot() string {
	switch {
	case v.question != nil:
		return "  " + v.app.Paint(term.Yellow, v.question.text) + "  y: yes, any other key: no"
	case v.problem != nil:
		text := v.problem.Error()
		if v.snapshotFailed && v.hasSnapshot {
			text = "as of " + v.snap.at.Local().Format(time.TimeOnly) + ": " + text
		}
		return "  " + v.app.Paint(term.Red, words.OneLine(text))
	case v.news != "":
		return "  " + v.app.Paint(term.Green, v.news)
	}
	return "  " + v.app.Paint(term.Faint, v.keys()+"q quit")
}

// keys lists the keys that have an effect, except q.
func (v *topView) keys() string {
	pause, requeue, requeueDead := "p pause/resume · ", "r requeue · ", "r requeue a dead job · "
	if v.app.Adopted != nil { // an adopted table is changed with SQL
		pause, requeue, requeueDead = "", "", ""
	}
	keys := "tab list · ↑↓ select · "
	switch {
	case v.openedJob != 0:
		keys = "↑↓ scroll · " + requeueDead + "esc back · "
	case v.tab == tabQueues:
		keys += "enter its jobs · " + pause
	case v.tab == tabDead:
		keys += "enter look · " + requeue
	default:
		keys += "enter look · "
	}
	if v.queueFilter != "" && v.openedJob == 0 {
		keys += "esc all queues · "
	}
	return keys
}

func (v *topView) selectedJob() *dibs.RawJob {
	jobs := map[topTab][]*dibs.RawJob{tabRunning: v.snap.running, tabDead: v.snap.dead}[v.tab]
	if v.selectedRow[v.tab] < len(jobs) {
		return jobs[v.selectedRow[v.tab]]
	}
	return nil
}

// restoreSelection finds the selected row again in a new snapshot. If it is gone, the row in
// its place is selected.
func (v *topView) restoreSelection() {
	if i := slices.IndexFunc(v.snap.queues, func(q admin.QueueStats) bool { return q.Queue == v.selectedQueue }); i >= 0 {
		v.selectedRow[tabQueues] = i
	}
	for t, jobs := range map[topTab][]*dibs.RawJob{tabRunning: v.snap.running, tabDead: v.snap.dead} {
		if i := slices.IndexFunc(jobs, func(j *dibs.RawJob) bool { return j.ID == v.selectedJobs[t] }); i >= 0 {
			v.selectedRow[t] = i
		}
	}
	v.keepSelection()
}

// keepSelection keeps the selections within their lists and records the selected ids.
func (v *topView) keepSelection() {
	sizes := [tabs]int{len(v.snap.queues), len(v.snap.running), len(v.snap.dead)}
	for t, n := range sizes {
		v.selectedRow[t] = min(max(0, v.selectedRow[t]), max(0, n-1))
	}
	v.selectedQueue, v.selectedJobs = "", [tabs]int64{}
	if len(v.snap.queues) > 0 {
		v.selectedQueue = v.snap.queues[v.selectedRow[tabQueues]].Queue
	}
	if len(v.snap.running) > 0 {
		v.selectedJobs[tabRunning] = v.snap.running[v.selectedRow[tabRunning]].ID
	}
	if len(v.snap.dead) > 0 {
		v.selectedJobs[tabDead] = v.snap.dead[v.selectedRow[tabDead]].ID
	}
}
