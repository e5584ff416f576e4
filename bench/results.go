package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// results is the output of --json and the input of plot.
type results struct {
	Machine   []workload.Fact `json:"machine"`
	Server    []workload.Fact `json:"server"`
	Settings  []workload.Fact `json:"settings"`
	Workloads []result        `json:"workloads"`
}

// readResults reads the output of --json.
func readResults(path string) (r results, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s is not an output of make bench ARGS=--json: %w", path, err)
	}
	return r, nil
}

// table prints the results of runs of different workloads as one table.
func table(out io.Writer, paths []string) error {
	var all results
	for i, path := range paths {
		r, err := readResults(path)
		if err != nil {
			return err
		}
		if i == 0 {
			all = r
			continue
		}
		all.Workloads = append(all.Workloads, r.Workloads...)
	}
	return all.write(out)
}

// result holds the results of one workload.
type result struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Rows []figure `json:"rows"`
	// Series holds for each contender and round jobs/s over equal parts of the time.
	Series map[string][][]float64 `json:"series,omitempty"`
	// Waits are the samples of the server's processes for dibs, with --waits.
	Waits []workload.Wait `json:"waits,omitempty"`
}

// figure is one row of the table.
type figure struct {
	Key    string                     `json:"key"`
	Name   string                     `json:"name"`
	Unit   string                     `json:"unit,omitempty"`
	Target string                     `json:"target,omitempty"`
	X      float64                    `json:"x,omitempty"`
	By     map[string]workload.Spread `json:"by"`     // figures by contender
	Ratios map[string]float64         `json:"ratios"` // dibs' median divided by that of each other contender
}

// add adds the contenders' measurements, round by round.
func (r *results) add(c comparison, runs map[string][]workload.Measured) {
	out := result{ID: c.ID, Name: c.Name, Series: map[string][][]float64{}}
	for i, row := range c.Rows {
		f := figure{Key: row.Key, Name: row.Name, Unit: row.Unit, X: row.X, By: map[string]workload.Spread{}, Ratios: map[string]float64{}}
		if i < len(c.targets) {
			f.Target = c.targets[i]
		}
		for name, runs := range runs {
			if s, ok := workload.SpreadOf(row, runs); ok {
				f.By[name] = s
			}
		}
		if len(f.By) == 0 {
			continue // this machine cannot measure the figure
		}
		for name, s := range f.By {
			if dibs, ok := f.By["dibs"]; ok && name != "dibs" && s.Median > 0 {
				f.Ratios[name] = dibs.Median / s.Median
			}
		}
		out.Rows = append(out.Rows, f)
	}
	if c.waits != nil {
		out.Waits = c.waits.List()
	}
	for name, runs := range runs {
		for _, m := range runs {
			if m.Series != nil {
				out.Series[name] = append(out.Series[name], m.Series)
			}
		}
	}
	r.Workloads = append(r.Workloads, out)
}

// write prints a table in Markdown.
func (r *results) write(out io.Writer) error {
	var text strings.Builder
	for _, list := range [][]workload.Fact{r.Machine, r.Server, r.Settings} {
		for i, s := range list {
			if i > 0 {
				text.WriteString("; ")
			}
			text.WriteString(s.Name + ": " + s.Value)
		}
		if len(list) > 0 {
			text.WriteString("\n\n")
		}
	}
	others := r.others()
	head := []string{"", "workload", "figure", "dibs"}
	head = append(head, others...)
	for _, name := range others {
		head = append(head, "dibs : "+strings.TrimSuffix(name, " table"))
	}
	table := [][]string{append(head, "target")}
	for _, w := range r.Workloads {
		for i, f := range w.Rows {
			id, name := w.ID, w.Name
			if i > 0 {
				id, name = "", ""
			}
			line := []string{id, name, strings.TrimSuffix(f.Name+", "+f.Unit, ", "), f.cell("dibs")}
			for _, other := range others {
				line = append(line, f.cell(other))
			}
			for _, other := range others {
				line = append(line, f.ratio(other))
			}
			table = append(table, append(line, f.Target))
		}
	}
	writeTable(&text, table)
	for _, w := range r.Workloads {
		if w.Waits == nil {
			continue
		}
		table := [][]string{{w.ID + ", " + w.Name + ": the server's processes, for dibs", "of them, on average"}}
		for _, wait := range w.Waits {
			table = append(table, []string{wait.At, fmt.Sprintf("%.2f", wait.Mean)})
		}
		text.WriteString("\n")
		writeTable(&text, table)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// others lists the contenders beside dibs, in the order of their columns.
func (r *results) others() []string {
	var names []string
	for _, name := range []string{riverProduct.Name, graphileName, pgBossName, adoptedName, unadvised, bare} {
		for _, w := range r.Workloads {
			if slices.ContainsFunc(w.Rows, func(f figure) bool { _, ok := f.By[name]; return ok }) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

func (f figure) cell(name string) string {
	s, ok := f.By[name]
	switch {
	case !ok:
		return ""
	case len(s.All) == 1:
		return workload.Short(s.Median)
	}
	return fmt.Sprintf("%s [%s-%s]", workload.Short(s.Median), workload.Short(s.Min), workload.Short(s.Max))
}

func (f figure) ratio(name string) string {
	if v, ok := f.Ratios[name]; ok {
		return workload.Short(v)
	}
	return ""
}

func writeTable(text *strings.Builder, table [][]string) {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for n, cells := range table {
		for i, c := range cells {
			fmt.Fprintf(text, "| %-*s ", widths[i], c)
		}
		text.WriteString("|\n")
		if n == 0 {
			for _, w := range widths {
				text.WriteString("|" + strings.Repeat("-", w+2))
			}
			text.WriteString("|\n")
		}
	}
}
