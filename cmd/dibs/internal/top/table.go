package top

import (
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// table makes the list of a tab, without columns that an adopted table does not know.
func (v *topView) table(tab topTab) *term.Table {
	t := v.queueTable
	switch tab {
	case tabRunning:
		t = v.runningTable
	case tabDead:
		t = v.deadTable
	}
	list := t()
	names := make([]string, len(list.Columns))
	for i, c := range list.Columns {
		names[i] = c.Name
	}
	list.Columns = cmdline.KnownCells(v.app.Adopted, names, list.Columns)
	for i, row := range list.Rows {
		list.Rows[i] = cmdline.KnownCells(v.app.Adopted, names, row)
	}
	return list
}

// empty is shown for a tab without rows.
var empty = [tabs]string{"no queues yet; 'dibs enqueue' makes them", "nothing is running", "no job is dead"}

func (v *topView) queueTable() *term.Table {
	t := v.app.TableOf("~QUEUE", "#WAITING", "#LATER", "#BLOCKED", "#RUNNING", "#DEAD", "#OLDEST", "#WAIT", "#RUN", "#JOBS/S", "~HELD UP BY")
	anyHeld := false
	for _, q := range v.snap.queues {
		rate := term.Cell{Text: v.app.Rate(q)}
		if q.Paused {
			rate = term.Cell{Text: "paused", Style: term.Yellow}
		}
		var whyNot term.Cell
		for _, h := range v.snap.why.Of(q) {
			if h.Reason != "paused" {
				whyNot, anyHeld = term.Cell{Text: h.Short, Style: term.Yellow}, true
				break
			}
		}
		t.AppendRow([]any{
			words.Printable(q.Queue),
			short(q.Waiting),
			later(q),
			term.Cell{Text: short(q.Blocked), Style: nonzero(term.Yellow, q.Blocked)},
			term.Cell{Text: short(q.Running), Style: nonzero(term.Cyan, q.Running)},
			term.Cell{Text: short(q.Dead), Style: nonzero(term.Red, q.Dead)},
			term.Dash(q.OldestAge != 0, words.Roughly(q.OldestAge)),
			term.Dash(q.Claimed > 0, words.Roughly(q.AvgWait)),
			term.Dash(q.Succeeded+q.Failed > 0, words.Roughly(q.AvgRun)),
			rate,
			whyNot,
		})
	}
	if !anyHeld {
		t.Columns = t.Columns[:len(t.Columns)-1]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][:len(t.Columns)]
		}
	}
	return t
}

func (v *topView) runningTable() *term.Table {
	t := v.app.TableOf("#ID", "~QUEUE", "~KIND", "~WORKER", "#ATTEMPT", "#FOR", "#LEASE")
	progress := slices.ContainsFunc(v.snap.running, func(j *dibs.RawJob) bool { return j.Progress != nil })
	if progress {
		t.Columns = append(t.Columns, term.Column{Name: "PROGRESS", Clippable: true})
	}
	for _, j := range v.snap.running {
		lease := term.Cell{Text: "ended", Style: term.Red} // a sweep has not taken it away yet
		switch {
		case j.CancelRequested:
			lease = term.Cell{Text: "cancel", Style: term.Yellow}
		case j.LeaseUntil.After(v.snap.at):
			lease = term.Cell{Text: words.Roughly(j.LeaseUntil.Sub(v.snap.at))}
		}
		row := []any{
			words.Printable(term.KeyOf(j)),
			words.Printable(j.Queue),
			words.Printable(j.Kind),
			words.Printable(j.Worker),
			jobs.Attempts(v.app.App, j),
			words.Roughly(max(0, v.snap.at.Sub(j.ClaimedAt))),
			lease,
		}
		switch {
		case j.Progress != nil:
			row = append(row, term.Cell{Text: jobs.ProgressText(j.Progress)})
		case progress:
			row = append(row, "")
		}
		t.AppendRow(row)
	}
	return t
}

func (v *topView) deadTable() *term.Table {
	t := v.app.TableOf("#ID", "~QUEUE", "~KIND", "#ATTEMPT", "#DIED", "~ERROR")
	for _, j := range v.snap.dead {
		t.AppendRow([]any{
			words.Printable(term.KeyOf(j)),
			words.Printable(j.Queue),
			words.Printable(j.Kind),
			jobs.Attempts(v.app.App, j),
			words.Roughly(max(time.Millisecond, v.snap.at.Sub(j.FinishedAt))),
			term.Cell{Text: term.Clip(words.OneLine(jobs.Note(j)), 300), Style: term.Red},
		})
	}
	return t
}

// drawList formats a list in a width; selected is the marked row, or -1.
func (v *topView) drawList(t *term.Table, width, selected int) []string {
	gap := 2
	if width < 100 {
		gap = 1
	}
	return t.Lines(width, gap, func(row int) string {
		if row >= 0 && row == selected {
			return v.app.Paint(term.Cyan, "▸") + " "
		}
		return "  "
	})
}

// short formats n in at most six columns.
func short(n int64) string {
	switch {
	case n < 100_000:
		return words.Count(n)
	case n < 10_000_000:
		return words.Count(n/1000) + "k"
	}
	return words.Count(n/1_000_000) + "M"
}

func later(q admin.QueueStats) string {
	if q.ScheduledMore {
		return words.Count(q.Scheduled) + "+"
	}
	return words.Count(q.Scheduled)
}

// nonzero returns the style for counts other than zero.
func nonzero(st term.Style, n int64) term.Style {
	if n == 0 {
		return term.Plain
	}
	return st
}
