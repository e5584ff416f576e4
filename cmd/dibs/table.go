package main

import (
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// style is a terminal's SGR sequence, which precedes coloured text.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	faint  style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	cyan   style = "\x1b[36m"
)

// paint colours s if stdout may be coloured.
func (a *app) paint(st style, s string) string {
	if !a.color || st == plain || s == "" {
		return s
	}
	return string(st) + s + "\x1b[0m"
}

func (a *app) paintState(s dibs.State) string {
	styles := map[dibs.State]style{
		dibs.Running: cyan, dibs.Blocked: yellow, dibs.Completed: green, dibs.Dead: red, dibs.Cancelled: faint,
	}
	return a.paint(styles[s], string(s))
}

// tableOf makes a table without lines. Columns whose heading begins with "#" contain
// numbers and are aligned to the right.
func (a *app) tableOf(headings ...string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(a.stdout)
	t.SuppressTrailingSpaces()
	t.SetStyle(table.Style{
		Box:     table.BoxStyle{PaddingRight: "  ", UnfinishedRow: "…"},
		Options: table.OptionsNoBordersAndSeparators,
	})
	if a.outTTY {
		t.Style().Size.WidthMax = a.width
	}
	row := make(table.Row, len(headings))
	columns := make([]table.ColumnConfig, 0, len(headings))
	for i, h := range headings {
		if name, right := strings.CutPrefix(h, "#"); right {
			h = name
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
		row[i] = a.paint(bold, h)
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(row)
	return t
}

// cell makes a name fit for one line, and cuts it to width on a terminal.
func (a *app) cell(s string, width int) string {
	s = oneLine(s)
	if !a.outTTY {
		return s
	}
	return clip(s, width)
}

// maxName is how many columns a name has where stdout is no terminal: a longer one would move all that
// stands right of it. --json has it whole.
const maxName = 40

// nameCell is cell for a name that other columns follow.
func (a *app) nameCell(s string, width int) string {
	if !a.outTTY {
		width = maxName
	}
	return clip(oneLine(s), width)
}

// clip cuts s to width columns of a terminal.
func clip(s string, width int) string {
	if text.StringWidthWithoutEscSequences(s) <= width {
		return s
	}
	return text.Trim(s, width-1) + "…"
}
