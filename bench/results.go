package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// results are what --json prints and plot reads.
type results struct {
	Machine   []setting `json:"machine"`
	Server    []setting `json:"server"`
	Settings  []setting `json:"settings"`
	Workloads []result  `json:"workloads"`
}

// result is what a workload gave.
type result struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Rows []figure `json:"rows"`
	// Series holds for each contender and round jobs/s over equal parts of the time.
	Series map[string][][]float64 `json:"series,omitempty"`
}

// figure is one row of the table.
type figure struct {
	Name   string             `json:"name"`
	Unit   string             `json:"unit,omitempty"`
	Target string             `json:"target,omitempty"`
	X      float64            `json:"x,omitempty"`
	By     map[string]spread  `json:"by"`     // contender
	Ratios map[string]float64 `json:"ratios"` // dibs' median to that of another
}

// spread is one contender's figure over all rounds.
type spread struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	All    []float64 `json:"all"`
}

func newSpread(all []float64) spread {
	sorted := slices.Sorted(slices.Values(all))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return spread{median, sorted[0], sorted[len(sorted)-1], all}
}

// add takes what the contenders measured, round by round.
func (r *results) add(w workload, done map[string][]measured) {
	out := result{ID: w.id, Name: w.name, Series: map[string][][]float64{}}
	for _, row := range w.rows {
		f := figure{Name: row.name, Unit: row.unit, Target: row.target, X: row.x, By: map[string]spread{}, Ratios: map[string]float64{}}
		for name, runs := range done {
			var all []float64
			for _, m := range runs {
				if v, ok := m.figures[row.key]; ok {
					all = append(all, v)
				}
			}
			if len(all) > 0 {
				f.By[name] = newSpread(all)
			}
		}
		for name, s := range f.By {
			if ours, ok := f.By["dibs"]; ok && name != "dibs" && s.Median > 0 {
				f.Ratios[name] = ours.Median / s.Median
			}
		}
		out.Rows = append(out.Rows, f)
	}
	for name, runs := range done {
		for _, m := range runs {
			if m.series != nil {
				out.Series[name] = append(out.Series[name], m.series)
			}
		}
	}
	r.Workloads = append(r.Workloads, out)
}

// write prints a table in Markdown.
func (r *results) write(out io.Writer) error {
	var text strings.Builder
	for _, list := range [][]setting{r.Machine, r.Server, r.Settings} {
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
	table := [][]string{{"", "workload", "figure", "dibs", "River", bare, "dibs : River", "dibs : bare", "target"}}
	for _, w := range r.Workloads {
		for i, f := range w.Rows {
			id, name := w.ID, w.Name
			if i > 0 {
				id, name = "", ""
			}
			table = append(table, []string{
				id, name, strings.TrimSuffix(f.Name+", "+f.Unit, ", "),
				f.cell("dibs"), f.cell("River"), f.cell(bare), f.ratio("River"), f.ratio(bare), f.Target,
			})
		}
	}
	writeTable(&text, table)
	_, err := io.WriteString(out, text.String())
	return err
}

func (f figure) cell(name string) string {
	s, ok := f.By[name]
	switch {
	case !ok:
		return ""
	case len(s.All) == 1:
		return short(s.Median)
	}
	return fmt.Sprintf("%s [%s-%s]", short(s.Median), short(s.Min), short(s.Max))
}

func (f figure) ratio(name string) string {
	if v, ok := f.Ratios[name]; ok {
		return short(v)
	}
	return ""
}

// short writes a number with three digits that count.
func short(v float64) string {
	switch {
	case v >= 1e5:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v == 0:
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(digits, 3), v)
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
