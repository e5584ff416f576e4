package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs/internal/history"
	"github.com/dibs-queue/dibs/internal/torture"
)

type tortureJSON struct {
	Kept        bool             `json:"kept"`
	Seed        uint64           `json:"seed"`
	Took        seconds          `json:"took"`
	Totals      torture.Totals   `json:"totals"`
	Faults      map[string]int   `json:"faults"`
	Recoveries  int              `json:"recoveries"`
	RecoveryP50 seconds          `json:"recovery_p50"`
	RecoveryP99 seconds          `json:"recovery_p99"`
	RecoveryMax seconds          `json:"recovery_max"`
	Promises    []tortureVerdict `json:"promises"`
	Orders      tortureOrders    `json:"orders"`
	History     string           `json:"history,omitempty"` // where the records are, if they are kept
}

type tortureVerdict struct {
	Number  int      `json:"number"`
	Promise string   `json:"promise"`
	Checked int      `json:"checked"`
	Broken  []string `json:"broken"`
}

type tortureOrders struct {
	Checked   int      `json:"checked"`
	Undecided int      `json:"undecided"`
	Broken    []string `json:"broken"`
}

// reportTorture writes what came out, and returns an error if a promise was broken.
func (a *app) reportTorture(r *torture.Result, report string, keep bool) error {
	if !keep && r.Kept() {
		r.Dir = "" // about to be removed
	}
	var err error
	if report != "" {
		if err = writeReport(r, report); err != nil {
			report = ""
		}
	}
	if a.json {
		err = errors.Join(err, a.writeJSON(tortureJSONOf(r)))
	} else {
		fmt.Fprint(a.stdout, a.tortureText(r, report))
	}
	if r.Kept() {
		return err
	}
	return &hintError{
		err:  &codeError{exitFailure, errors.Join(errors.New("a promise was broken"), err)},
		next: "the processes' records were kept in " + r.Dir + "; please report this with them",
	}
}

func writeReport(r *torture.Result, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(torture.WriteReport(f, r), f.Close())
}

func tortureJSONOf(r *torture.Result) tortureJSON {
	t := &r.Totals
	j := tortureJSON{
		Kept: r.Kept(), Seed: r.Seed, Took: seconds(r.Took), Totals: *t, Faults: r.Faults, Recoveries: len(t.Recoveries),
		RecoveryP50: seconds(t.Quantile(0.5)), RecoveryP99: seconds(t.Quantile(0.99)), RecoveryMax: seconds(t.Quantile(1)),
		Orders:  tortureOrders{r.Orders.Checked, r.Orders.Undecided, texts(r.Orders.Broken)},
		History: r.Dir,
	}
	for _, v := range r.Verdicts {
		j.Promises = append(j.Promises, tortureVerdict{v.Number, v.Promise, v.Checked, texts(v.Broken)})
	}
	return j
}

func texts(all []history.Violation) []string {
	list := []string{}
	for _, v := range all {
		list = append(list, v.Text)
	}
	return list
}

func (a *app) tortureText(r *torture.Result, report string) string {
	var b strings.Builder
	verdict := a.paint(green, "every promise was kept")
	if !r.Kept() {
		verdict = a.paint(red, "a promise was broken")
	}
	fmt.Fprintf(&b, "\n  %s %s\n\n", a.paint(bold, "Verdict:"), verdict)
	for _, v := range r.Verdicts {
		a.tortureLine(&b, fmt.Sprintf("%d. ", v.Number), v.Promise, plural(v.Checked, "case")+" checked", v.Checked, len(v.Broken))
	}
	checked := plural(r.Orders.Checked, "job") + " checked"
	if n := r.Orders.Undecided; n > 0 {
		checked += fmt.Sprintf(", %s not decided", count(int64(n)))
	}
	a.tortureLine(&b, "", "Linearizability: for each job, one order of all calls explains every answer.", checked, r.Orders.Checked, len(r.Orders.Broken))
	b.WriteString("\n" + a.tortureTotals(r))
	if v := r.Offence(); v != nil {
		fmt.Fprintf(&b, "\n  %s %s\n", a.paint(bold, "The shortest history that shows it:"), a.paint(red, v.Text))
		for _, l := range torture.Lines(v) {
			fmt.Fprintf(&b, "    %s\n", l)
		}
	}
	if r.Dir != "" {
		fmt.Fprintf(&b, "\n  The records are in %s.\n", r.Dir)
	}
	if report != "" {
		fmt.Fprintf(&b, "  The report is in %s.\n", report)
	}
	return b.String()
}

// tortureLine writes one verdict.
func (a *app) tortureLine(b *strings.Builder, number, text, found string, checked, broken int) {
	mark := a.paint(green, "✓")
	switch {
	case broken > 0:
		mark = a.paint(red, "✗")
	case checked == 0:
		mark = a.paint(yellow, "-")
	}
	lines := strings.Split(lipgloss.NewStyle().Width(max(40, min(a.width, 100)-8)).Render(text), "\n")
	for i, l := range lines {
		head := strings.Repeat(" ", 2+len(number))
		if i == 0 {
			head = mark + " " + number
		}
		fmt.Fprintf(b, "  %s%s\n", head, strings.TrimRight(l, " "))
	}
	verdict := "none broken"
	if broken > 0 {
		verdict = a.paint(red, count(int64(broken))+" broken")
	}
	fmt.Fprintf(b, "       %s\n", a.paint(faint, found+", ")+verdict)
}

func (a *app) tortureTotals(r *torture.Result) string {
	var b strings.Builder
	t := &r.Totals
	row := func(n int, text string) { fmt.Fprintf(&b, "  %12s  %s\n", count(int64(n)), text) }
	row(t.Operations, fmt.Sprintf("operations on jobs in %s (%s/s): enqueued %s, claimed %s, finished %s, others %s",
		tenths(r.Took), count(int64(float64(t.Operations)/r.Took.Seconds())),
		count(int64(t.Enqueued)), count(int64(t.Claimed)), count(int64(t.Finished)), count(int64(t.Others))))
	row(t.Calls, fmt.Sprintf("calls, of which %s had no answer", count(int64(t.Unanswered))))
	row(t.Refused, "outcomes and extensions refused, their leases being lost")
	for _, f := range torture.FaultTexts {
		if n := r.Faults[f.Name]; n > 0 {
			row(n, f.Text)
		}
	}
	if n := len(t.Recoveries); n > 0 {
		row(n, fmt.Sprintf("abandoned jobs claimed again, %s (median), %s (99 %%), %s (longest) after their leases",
			tenths(t.Quantile(0.5)), tenths(t.Quantile(0.99)), tenths(t.Quantile(1))))
		b.WriteString("                (it takes more than 2 s, and may, while the database is away, or for a job that has to wait\n" +
			"                for its group, a limit, a pause, or its turn behind better ones)\n")
	}
	fmt.Fprintf(&b, "  %12d  seed\n", r.Seed)
	return b.String()
}
