package main

import (
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/lab/workload"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
)

// benchReport holds the results of a run. 'dibs help json' describes it.
type benchReport struct {
	Interrupted bool              `json:"interrupted,omitempty"` // some workloads were not measured
	Dibs        string            `json:"dibs_version"`
	Database    string            `json:"database"`
	Rounds      int               `json:"rounds"`
	Scale       float64           `json:"scale"`
	Pool        int               `json:"pool"`
	Handlers    int               `json:"handlers"`
	Machine     map[string]string `json:"machine"`
	Server      map[string]string `json:"server"`
	Workloads   []benchWorkload   `json:"workloads"`

	machine, server []workload.Fact // like Machine and Server, in order
}

type benchWorkload struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Figures []benchFigure `json:"figures"`
	Series  [][]float64   `json:"series,omitempty"` // jobs/s in equal parts of the time, for each round
}

type benchFigure struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	workload.Spread
}

// benchEntry is an entry of --list.
type benchEntry struct {
	ID       string       `json:"id"`
	Name     string       `json:"name"`
	Postgres bool         `json:"postgres_only"`
	Takes    wire.Seconds `json:"takes"`
}

// add adds the figures of a workload's rounds. It leaves out figures that this machine cannot measure.
func (r *benchReport) add(w workload.Workload, runs []workload.Measured) {
	out := benchWorkload{ID: w.ID, Name: w.Name}
	for _, row := range w.Rows {
		if s, ok := workload.SpreadOf(row, runs); ok {
			out.Figures = append(out.Figures, benchFigure{row.Name, row.Unit, s})
		}
	}
	for _, m := range runs {
		if m.Series != nil {
			out.Series = append(out.Series, m.Series)
		}
	}
	r.Workloads = append(r.Workloads, out)
}

func (a *app) writeBench(r *benchReport) error {
	if a.JSON {
		r.Machine, r.Server = factsByName(r.machine), factsByName(r.server)
		return a.WriteJSON(r)
	}
	_, err := io.WriteString(a.Stdout, a.benchText(r))
	return err
}

func factsByName(list []workload.Fact) map[string]string {
	facts := map[string]string{}
	for _, f := range list {
		facts[strings.ReplaceAll(f.Name, " ", "_")] = f.Value
	}
	return facts
}

// benchText formats the figures, and then the properties of the machine and the server.
func (a *app) benchText(r *benchReport) string {
	name := 0 // columns of the longest name
	for _, w := range r.Workloads {
		for _, f := range w.Figures {
			name = max(name, lipgloss.Width(f.Name))
		}
	}
	var b strings.Builder
	for _, w := range r.Workloads {
		fmt.Fprintf(&b, "\n%-4s %s\n", w.ID, a.Paint(term.Bold, w.Name))
		for _, f := range w.Figures {
			spread := ""
			if len(f.All) > 1 {
				spread = workload.Short(f.Min) + " to " + workload.Short(f.Max)
			}
			line := fmt.Sprintf("     %-*s  %6s %-9s  %s", name, f.Name, workload.Short(f.Median), f.Unit, a.Paint(term.Faint, spread))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	b.WriteByte('\n')
	a.benchFacts(&b, "machine", r.machine)
	a.benchFacts(&b, r.Database, r.server)
	a.benchFacts(&b, "run", []workload.Fact{
		{Name: "dibs", Value: r.Dibs},
		{Name: "rounds", Value: fmt.Sprint(r.Rounds)},
		{Name: "scale", Value: fmt.Sprint(r.Scale)},
		{Name: "pool", Value: words.Plural(r.Pool, "connection")},
		{Name: "handlers", Value: words.Count(int64(r.Handlers))},
		{Name: "payload", Value: words.Plural(workload.LetterBytes, "byte")},
	})
	return b.String()
}

// benchFacts formats the properties as a paragraph.
func (a *app) benchFacts(b *strings.Builder, heading string, facts []workload.Fact) {
	const margin = 12
	var parts []string
	for _, f := range facts {
		parts = append(parts, f.Name+" "+f.Value)
	}
	text := lipgloss.NewStyle().Width(max(40, min(a.Width, 100)) - margin).Render(strings.Join(parts, "; "))
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			heading = ""
		}
		fmt.Fprintf(b, "%-*s%s\n", margin, heading, strings.TrimRight(line, " "))
	}
}
