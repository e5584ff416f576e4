package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs"
)

// topTab is one of the three lists.
type topTab int

const (
	tabQueues topTab = iota
	tabRunning
	tabDead
	tabs
)

// topView is all that the picture is drawn from.
type topView struct {
	app           *app
	title         string
	width, height int
	snap          snapshot
	seen          bool // there has been a snapshot

	tab    topTab
	at     [tabs]int // the selected row of each list
	queue  string    // what is selected, to find it again in the next snapshot
	ids    [tabs]int64
	only   string // the queue that the lists of jobs are narrowed to
	job    int64  // the job looked at closely, or 0
	scroll int    // lines of it that are above the screen

	ask        *question
	note       string // what was done last
	problem    error
	lookFailed bool // problem is why the snapshot is old
}

const around = 6 // lines above and below the list

// tabs is how many lists there are: not all adopted tables can tell what is dead.
func (v *topView) tabs() topTab {
	if !v.app.adopted.tells("DEAD") {
		return tabDead
	}
	return tabs
}

// body is how many lines the list has, its heading included.
func (v *topView) body() int { return max(v.height-around, 1) }

func (v *topView) draw() []string {
	if v.width == 0 || v.height == 0 {
		return nil // the size of the terminal is not known yet
	}
	lines := []string{v.head(), v.totals(), "", v.tabLine(), ""}
	var list []string
	switch {
	case !v.seen:
		list = []string{"  …"}
	case v.job != 0:
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

// head is the title and, at the right, the time of the snapshot.
func (v *topView) head() string {
	clock := v.snap.at.Local().Format(time.TimeOnly)
	if !v.seen {
		clock = ""
	}
	title := clip(printable(v.title), max(v.width-len("dibs top")-len(clock)-8, 1))
	left := "  " + v.app.paint(bold, "dibs top") + "  " + v.app.paint(faint, title)
	gap := max(v.width-lipgloss.Width(left)-len(clock)-2, 1)
	return left + strings.Repeat(" ", gap) + v.app.paint(faint, clock)
}

// totals sums up all queues.
func (v *topView) totals() string {
	var sum dibs.QueueStats
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
	part := func(name, n string, st style) string { return v.app.paint(faint, name) + " " + v.app.paint(st, n) }
	columns := []string{"WAITING", "LATER", "BLOCKED", "RUNNING", "DEAD", "JOBS/S"}
	return "  " + strings.Join(told(v.app.adopted, columns, []string{
		part("waiting", short(sum.Waiting), plain),
		part("later", later(sum), plain),
		part("blocked", short(sum.Blocked), some(yellow, sum.Blocked)),
		part("running", short(sum.Running), some(cyan, sum.Running)),
		part("dead", short(sum.Dead), some(red, sum.Dead)),
		part("jobs/s", v.app.rate(sum), plain),
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
			name = v.app.paint(bold, "["+name[1:len(name)-1]+"]")
		}
		line += name + " "
	}
	if v.only != "" {
		line += " " + v.app.paint(yellow, "only queue "+clip(printable(v.only), 30))
	}
	return line
}

// list is the table of the tab, scrolled to where the selection is.
func (v *topView) list() []string {
	t := v.table(v.tab)
	if len(t.rows) == 0 {
		return []string{"  " + v.app.paint(faint, t.empty)}
	}
	at := v.at[v.tab]
	lines := t.draw(v.app, v.width, at)
	rows := max(v.body()-1, 1)
	from := min(max(0, at-rows/2), max(0, len(t.rows)-rows))
	return append(lines[:1:1], lines[1+from:min(1+from+rows, len(lines))]...)
}

// detail is the job looked at, as 'dibs show' writes it.
func (v *topView) detail() []string {
	if v.snap.job == nil || v.snap.job.ID != v.job {
		return []string{fmt.Sprintf("  job %d is not there any more", v.job)}
	}
	var text bytes.Buffer
	shown := *v.app
	shown.stdout = &text
	shown.writeJob(v.snap.job)
	const most = 64 << 10 // of what nobody will read on a screen
	if text.Len() > most {
		text.Truncate(most)
		fmt.Fprintf(&text, "…\n'dibs show %d' shows all of it", v.job)
	}
	wrapped := lipgloss.Wrap(strings.TrimRight(text.String(), "\n"), max(v.width-4, 20), "")
	lines := strings.Split(wrapped, "\n")
	for i, l := range lines {
		lines[i] = "  " + l
	}
	return lines
}

// foot is a question, news or the keys.
func (v *topView) foot() string {
	switch {
	case v.ask != nil:
		return "  " + v.app.paint(yellow, v.ask.text) + "  y: yes, any other key: no"
	case v.problem != nil:
		text := v.problem.Error()
		if v.lookFailed && v.seen {
			text = "as of " + v.snap.at.Local().Format(time.TimeOnly) + ": " + text
		}
		return "  " + v.app.paint(red, oneLine(text))
	case v.note != "":
		return "  " + v.app.paint(green, v.note)
	}
	return "  " + v.app.paint(faint, v.keys()+"q quit")
}

// keys are those that do something, but for q.
func (v *topView) keys() string {
	pause, requeue, requeueDead := "p pause/resume · ", "r requeue · ", "r requeue a dead job · "
	if v.app.adopted != nil { // it is changed with SQL
		pause, requeue, requeueDead = "", "", ""
	}
	keys := "tab list · ↑↓ select · "
	switch {
	case v.job != 0:
		keys = "↑↓ scroll · " + requeueDead + "esc back · "
	case v.tab == tabQueues:
		keys += "enter its jobs · " + pause
	case v.tab == tabDead:
		keys += "enter look · " + requeue
	default:
		keys += "enter look · "
	}
	if v.only != "" && v.job == 0 {
		keys += "esc all queues · "
	}
	return keys
}

func (v *topView) selectedJob() *dibs.RawJob {
	jobs := map[topTab][]*dibs.RawJob{tabRunning: v.snap.running, tabDead: v.snap.dead}[v.tab]
	if v.at[v.tab] < len(jobs) {
		return jobs[v.at[v.tab]]
	}
	return nil
}

// settle finds what was selected again in a new snapshot; what is gone leaves the
// selection to what stands in its place.
func (v *topView) settle() {
	if i := slices.IndexFunc(v.snap.queues, func(q dibs.QueueStats) bool { return q.Queue == v.queue }); i >= 0 {
		v.at[tabQueues] = i
	}
	for t, jobs := range map[topTab][]*dibs.RawJob{tabRunning: v.snap.running, tabDead: v.snap.dead} {
		if i := slices.IndexFunc(jobs, func(j *dibs.RawJob) bool { return j.ID == v.ids[t] }); i >= 0 {
			v.at[t] = i
		}
	}
	v.keep()
}

// keep holds the selections within their lists and notes what they are.
func (v *topView) keep() {
	sizes := [tabs]int{len(v.snap.queues), len(v.snap.running), len(v.snap.dead)}
	for t, n := range sizes {
		v.at[t] = min(max(0, v.at[t]), max(0, n-1))
	}
	v.queue, v.ids = "", [tabs]int64{}
	if len(v.snap.queues) > 0 {
		v.queue = v.snap.queues[v.at[tabQueues]].Queue
	}
	if len(v.snap.running) > 0 {
		v.ids[tabRunning] = v.snap.running[v.at[tabRunning]].ID
	}
	if len(v.snap.dead) > 0 {
		v.ids[tabDead] = v.snap.dead[v.at[tabDead]].ID
	}
}
