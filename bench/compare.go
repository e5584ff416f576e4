package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// noticeable is the least difference of a figure, in percent, that is marked: small for
// figures that a noisy machine does not change, larger for CPU. Rates and times are never
// marked. All of these figures are better when smaller.
var noticeable = map[string]float64{"wal": 5, "writes": 5, "allocs": 5, "server": 15, "client": 15}

// compare prints how dibs' figures have changed from one run to another.
func compare(out io.Writer, before, after string) error {
	old, err := readResults(before)
	if err != nil {
		return err
	}
	now, err := readResults(after)
	if err != nil {
		return err
	}
	var text strings.Builder
	if !reflect.DeepEqual(old.Settings, now.Settings) || !reflect.DeepEqual(old.Server, now.Server) {
		text.WriteString("The runs had different settings.\n\n")
	}
	table := [][]string{{"", "workload", "figure", "before", "after", "change", ""}}
	for _, w := range now.Workloads {
		rows := w.changes(old)
		if len(rows) > 0 {
			rows[0][0], rows[0][1] = w.ID, w.Name
		}
		table = append(table, rows...)
	}
	if len(table) == 1 {
		return fmt.Errorf("%s and %s have no workload of the same name: was the scale another?", before, after)
	}
	writeTable(&text, table)
	_, err = io.WriteString(out, text.String())
	return err
}

// fewRounds is the least number of rounds that tell a change from noise.
const fewRounds = 3

// disjoint reports whether all rounds of one run are above all of the other.
func disjoint(a, b workload.Spread) bool {
	return min(len(a.All), len(b.All)) >= fewRounds && (a.Max < b.Min || b.Max < a.Min)
}

// changes returns the rows of the figures that both runs have.
func (w result) changes(old results) (rows [][]string) {
	for _, f := range w.Rows {
		now, ok := f.By["dibs"]
		before, found := old.find(w, f.Key)
		if !ok || !found {
			continue
		}
		change, verdict := "", ""
		if before.Median != 0 {
			percent := 100 * (now.Median/before.Median - 1)
			change = fmt.Sprintf("%+.1f %%", percent)
			if limit, ok := noticeable[f.Key]; ok && math.Abs(percent) > limit && disjoint(before, now) {
				verdict = map[bool]string{true: "MORE", false: "less"}[percent > 0]
			}
		}
		name := strings.TrimSuffix(f.Name+", "+f.Unit, ", ")
		rows = append(rows, []string{"", "", name, workload.Short(before.Median), workload.Short(now.Median), change, verdict})
	}
	return rows
}

// find returns a figure of dibs in a workload.
func (r results) find(w result, key string) (workload.Spread, bool) {
	for _, old := range r.Workloads {
		if old.ID != w.ID || old.Name != w.Name {
			continue
		}
		for _, f := range old.Rows {
			if s, ok := f.By["dibs"]; ok && f.Key == key {
				return s, true
			}
		}
	}
	return workload.Spread{}, false
}
