package term

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Style is a terminal's SGR sequence, which precedes coloured text.
type Style string

const (
	Plain  Style = ""
	Bold   Style = "\x1b[1m"
	Faint  Style = "\x1b[2m"
	Red    Style = "\x1b[31m"
	Green  Style = "\x1b[32m"
	Yellow Style = "\x1b[33m"
	Cyan   Style = "\x1b[36m"
)

// Paint colours s if stdout may be coloured.
func (t *Terminal) Paint(st Style, s string) string {
	if !t.Color || st == Plain || s == "" {
		return s
	}
	return string(st) + s + "\x1b[0m"
}

func (t *Terminal) PaintState(s dibs.State) string {
	styles := map[dibs.State]Style{
		dibs.Running: Cyan, dibs.Blocked: Yellow, dibs.Completed: Green, dibs.Dead: Red, dibs.Cancelled: Faint,
	}
	return t.Paint(styles[s], string(s))
}

// Table is a list without lines between its cells.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	t       *Terminal
}

// Column is a column of a table.
type Column struct {
	Name      string
	Numeric   bool // its cells are aligned to the right
	Clippable bool // its cells may be clipped
}

// Cell is a value of a table. Its text may have several lines, and colours of its own.
type Cell struct {
	Text  string
	Style Style
}

// row makes a row of values as they are printed.
func row(values ...any) []Cell {
	cells := make([]Cell, len(values))
	for i, v := range values {
		if cell, ok := v.(Cell); ok {
			cells[i] = cell
		} else {
			cells[i].Text = fmt.Sprint(v)
		}
	}
	return cells
}

// TableOf makes a table. Columns whose heading begins with "#" contain numbers; those with "~" may be clipped.
func (t *Terminal) TableOf(headings ...string) *Table {
	w := &Table{t: t, Columns: make([]Column, len(headings))}
	for i, h := range headings {
		w.Columns[i] = Column{strings.TrimLeft(h, "#~"), strings.HasPrefix(h, "#"), strings.HasPrefix(h, "~")}
	}
	return w
}

// AppendRow adds a row of values as they are printed.
func (w *Table) AppendRow(values []any) { w.Rows = append(w.Rows, row(values...)) }

// DropEmptyColumns leaves out columns without values.
func (w *Table) DropEmptyColumns() {
	for i := len(w.Columns) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(w.Rows, func(row []Cell) bool { return row[i].Text != "" }) {
			w.Columns = slices.Delete(w.Columns, i, i+1)
			for n, row := range w.Rows {
				w.Rows[n] = slices.Delete(row, i, i+1)
			}
		}
	}
}

// Render writes the table. On a terminal, lines end at its width.
func (w *Table) Render() {
	for _, part := range w.List() {
		w.t.Say("%s", part)
	}
}

// List formats the heading and the rows as Render writes them. A row may have several lines.
func (w *Table) List() []string {
	parts := w.Lines(math.MaxInt, 2, func(int) string { return "" })
	if w.t.OutTTY {
		for i, part := range parts {
			lines := strings.Split(part, "\n")
			for n, line := range lines {
				lines[n] = Clip(line, w.t.Width)
			}
			parts[i] = strings.Join(lines, "\n")
		}
	}
	return parts
}

// Lines formats the heading, which is row -1, and the rows, each after a mark. Clippable columns become narrower, the
// widest first, until a row fits the width.
func (w *Table) Lines(width, gap int, mark func(row int) string) []string {
	heading := make([]Cell, len(w.Columns))
	for i, c := range w.Columns {
		heading[i] = Cell{c.Name, Bold}
	}
	rows := append([][]Cell{heading}, w.Rows...)
	widths := w.fit(rows, width-gap*(len(w.Columns)-1)-columnsOf(mark(-1)))
	parts := make([]string, len(rows))
	for n, row := range rows {
		parts[n] = w.row(mark(n-1), row, widths, gap)
	}
	return parts
}

// row formats a row, which has as many lines as its highest cell.
func (w *Table) row(mark string, cells []Cell, widths []int, gap int) string {
	cells = slices.Clone(cells)
	var lines []string
	for more := true; more; {
		var b strings.Builder
		b.WriteString(mark)
		more = false
		for i, c := range w.Columns {
			line, rest, several := "", "", false
			if len(lines) == 0 || cells[i].Text != "" {
				line, rest, several = strings.Cut(cells[i].Text, "\n")
			}
			line = Clip(line, widths[i])
			pad := strings.Repeat(" ", max(0, widths[i]-columnsOf(line)))
			if line = w.t.Paint(cells[i].Style, line); c.Numeric {
				line, pad = pad+line, ""
			}
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			b.WriteString(line + pad)
			cells[i].Text, more = rest, more || several
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return strings.Join(lines, "\n")
}

// fit chooses the widths of the columns, which have this room together.
func (w *Table) fit(rows [][]Cell, room int) []int {
	const narrowest = 5 // clipped columns
	widths := make([]int, len(w.Columns))
	for i := range w.Columns {
		for _, row := range rows {
			for line := range strings.SplitSeq(row[i].Text, "\n") {
				widths[i] = max(widths[i], columnsOf(line))
			}
		}
		room -= widths[i]
	}
	for ; room < 0; room++ {
		widest := -1
		for i, c := range w.Columns {
			if c.Clippable && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // the terminal cuts the rest
		}
		widths[widest]--
	}
	return widths
}

// columnsOf counts the columns of a terminal that a text takes.
func columnsOf(s string) int { return text.StringWidthWithoutEscSequences(s) }

// Cell makes a name fit for one line, and cuts it to width on a terminal.
func (t *Terminal) Cell(s string, width int) string {
	s = words.OneLine(s)
	if !t.OutTTY {
		return s
	}
	return Clip(s, width)
}

// MaxName is how many columns a name has where stdout is no terminal: a longer one would move all that
// stands right of it. --json has it whole.
const MaxName = 40

// NameCell is cell for a name that other columns follow.
func (t *Terminal) NameCell(s string, width int) string {
	if !t.OutTTY {
		width = MaxName
	}
	return Clip(words.OneLine(s), width)
}

// Clip cuts s to width columns of a terminal.
func Clip(s string, width int) string {
	if columnsOf(s) <= width {
		return s
	}
	return text.Trim(s, width-1) + "…"
}

// CountCell and DurationCell leave zeros empty on a terminal, so that other values stand
// out. A column without values is left out.
func (t *Terminal) CountCell(st Style, n int64) string {
	if n == 0 && t.OutTTY {
		return ""
	}
	return t.Paint(st, words.Count(n))
}

func (t *Terminal) DurationCell(known bool, d time.Duration) string {
	if !known && t.OutTTY {
		return ""
	}
	return Dash(known, words.Roughly(d))
}

// Dash replaces an unknown value.
func Dash(known bool, s string) string {
	if !known {
		return "-"
	}
	return s
}

func (t *Terminal) Yes(b bool) string {
	if b {
		return t.Paint(Yellow, "yes")
	}
	return "no"
}
