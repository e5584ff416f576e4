package main

import (
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs"
)

// topTable is a list with a heading. Clippable columns become narrower, the widest first,
// until a row fits the terminal.
type topTable struct {
	columns []topColumn
	rows    [][]topCell
	empty   string // text shown instead of rows
}

type topColumn struct {
	name      string
	numeric   bool // its cells are aligned to the right
	clippable bool // its cells may be clipped
}

type topCell struct {
	text  string
	style style
}

// table makes the list of a tab.
func (v *topView) table(t topTab) topTable {
	switch t {
	case tabRunning:
		return v.runningTable().onlyKnown(v.app.adopted)
	case tabDead:
		return v.deadTable().onlyKnown(v.app.adopted)
	}
	return v.queueTable().onlyKnown(v.app.adopted)
}

// onlyKnown leaves out columns that an adopted table does not know.
func (t topTable) onlyKnown(adopted *adoptedTable) topTable {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	t.columns = knownCells(adopted, names, t.columns)
	for i, row := range t.rows {
		t.rows[i] = knownCells(adopted, names, row)
	}
	return t
}

func (v *topView) queueTable() topTable {
	t := topTable{
		columns: []topColumn{
			{"QUEUE", false, true},
			{"WAITING", true, false},
			{"LATER", true, false},
			{"BLOCKED", true, false},
			{"RUNNING", true, false},
			{"DEAD", true, false},
			{"OLDEST", true, false},
			{"WAIT", true, false},
			{"RUN", true, false},
			{"JOBS/S", true, false},
			{"HELD UP BY", false, true},
		},
		empty: "no queues yet; 'dibs enqueue' makes them",
	}
	anyHeld := false
	for _, q := range v.snap.queues {
		rate := topCell{v.app.rate(q), plain}
		if q.Paused {
			rate = topCell{"paused", yellow}
		}
		var whyNot topCell
		for _, h := range v.snap.why.Of(q) {
			if h.Reason != "paused" {
				whyNot, anyHeld = topCell{h.Short, yellow}, true
				break
			}
		}
		t.rows = append(t.rows, []topCell{
			{printable(q.Queue), plain},
			{short(q.Waiting), plain},
			{later(q), plain},
			{short(q.Blocked), nonzero(yellow, q.Blocked)},
			{short(q.Running), nonzero(cyan, q.Running)},
			{short(q.Dead), nonzero(red, q.Dead)},
			{dash(q.OldestAge != 0, roughly(q.OldestAge)), plain},
			{dash(q.Claimed > 0, roughly(q.AvgWait)), plain},
			{dash(q.Succeeded+q.Failed > 0, roughly(q.AvgRun)), plain},
			rate,
			whyNot,
		})
	}
	if !anyHeld {
		t.columns = t.columns[:len(t.columns)-1]
		for i := range t.rows {
			t.rows[i] = t.rows[i][:len(t.columns)]
		}
	}
	return t
}

func (v *topView) runningTable() topTable {
	t := topTable{
		columns: []topColumn{
			{"ID", true, false},
			{"QUEUE", false, true},
			{"KIND", false, true},
			{"WORKER", false, true},
			{"ATTEMPT", true, false},
			{"FOR", true, false},
			{"LEASE", true, false},
		},
		empty: "nothing is running",
	}
	progress := slices.ContainsFunc(v.snap.running, func(j *dibs.RawJob) bool { return j.Progress != nil })
	if progress {
		t.columns = append(t.columns, topColumn{"PROGRESS", false, true})
	}
	for _, j := range v.snap.running {
		lease := topCell{"ended", red} // a sweep has not taken it away yet
		switch {
		case j.CancelRequested:
			lease = topCell{"cancel", yellow}
		case j.LeaseUntil.After(v.snap.at):
			lease = topCell{roughly(j.LeaseUntil.Sub(v.snap.at)), plain}
		}
		row := []topCell{
			{printable(keyOf(j)), plain},
			{printable(j.Queue), plain},
			{printable(j.Kind), plain},
			{printable(j.Worker), plain},
			{v.app.attempts(j), plain},
			{roughly(max(0, v.snap.at.Sub(j.ClaimedAt))), plain},
			lease,
		}
		switch {
		case j.Progress != nil:
			row = append(row, topCell{progressText(j.Progress), plain})
		case progress:
			row = append(row, topCell{})
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (v *topView) deadTable() topTable {
	t := topTable{
		columns: []topColumn{
			{"ID", true, false},
			{"QUEUE", false, true},
			{"KIND", false, true},
			{"ATTEMPT", true, false},
			{"DIED", true, false},
			{"ERROR", false, true},
		},
		empty: "no job is dead",
	}
	for _, j := range v.snap.dead {
		t.rows = append(t.rows, []topCell{
			{printable(keyOf(j)), plain},
			{printable(j.Queue), plain},
			{printable(j.Kind), plain},
			{v.app.attempts(j), plain},
			{roughly(max(time.Millisecond, v.snap.at.Sub(j.FinishedAt))), plain},
			{clip(oneLine(note(j)), 300), red},
		})
	}
	return t
}

// draw formats the heading and the rows; selected is the marked row, or -1.
func (t topTable) draw(a *app, width, selected int) []string {
	widths, gap := t.fit(width)
	line := func(mark string, cell func(i int) topCell) string {
		var b strings.Builder
		b.WriteString(mark)
		for i, c := range t.columns {
			cell := cell(i)
			text := clip(cell.text, widths[i])
			pad := strings.Repeat(" ", max(0, widths[i]-lipgloss.Width(text)))
			text = a.paint(cell.style, text)
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			if c.numeric {
				b.WriteString(pad + text)
			} else {
				b.WriteString(text + pad)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	lines := []string{line("  ", func(i int) topCell { return topCell{t.columns[i].name, bold} })}
	for n, row := range t.rows {
		mark := "  "
		if n == selected {
			mark = a.paint(cyan, "▸") + " "
		}
		lines = append(lines, line(mark, func(i int) topCell { return row[i] }))
	}
	return lines
}

// fit chooses the widths of the columns, and of the gap between two.
func (t topTable) fit(width int) (widths []int, gap int) {
	const minWidth = 5 // narrowest clipped column
	gap = 2
	if width < 100 {
		gap = 1
	}
	total := 2 + gap*(len(t.columns)-1)
	widths = make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = len(c.name)
		for _, row := range t.rows {
			widths[i] = max(widths[i], lipgloss.Width(row[i].text))
		}
		total += widths[i]
	}
	for ; total > width; total-- {
		widest := -1
		for i, c := range t.columns {
			if c.clippable && widths[i] > minWidth && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // the terminal cuts the rest
		}
		widths[widest]--
	}
	return widths, gap
}

// short formats n in at most six columns.
func short(n int64) string {
	switch {
	case n < 100_000:
		return count(n)
	case n < 10_000_000:
		return count(n/1000) + "k"
	}
	return count(n/1_000_000) + "M"
}

func later(q dibs.QueueStats) string {
	if q.ScheduledMore {
		return count(q.Scheduled) + "+"
	}
	return count(q.Scheduled)
}

// nonzero returns the style for counts other than zero.
func nonzero(st style, n int64) style {
	if n == 0 {
		return plain
	}
	return st
}
