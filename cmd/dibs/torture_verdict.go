package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/dibs-queue/dibs/internal/lab/torture"
)

// reportTorture writes the verdict, and returns an error if a promise was broken.
func (a *app) reportTorture(r *torture.Result, report string, keep bool) error {
	if !keep && r.Kept() {
		r.Dir = "" // the folder is about to be removed
	}
	var err error
	if report != "" {
		if err = writeReport(r, report); err != nil {
			report = ""
		}
	}
	if a.json {
		err = errors.Join(err, a.writeJSON(tortureJSONOf(r, report)))
	} else {
		fmt.Fprint(a.stdout, a.tortureText(r, report))
	}
	switch {
	case !r.Kept() && r.Adopted != "":
		return &hintError{
			err:  &codeError{exitBroken, errors.Join(errors.New("a promise was broken"), err)},
			next: "see how 'dibs adopt check' says that claims are fenced: where whole seconds have to tell them apart, this is how it shows;\notherwise please report this with the mapping and the folder " + shellWord(r.Dir),
		}
	case !r.Kept():
		return &hintError{
			err:  &codeError{exitBroken, errors.Join(errors.New("a promise was broken"), err)},
			next: fmt.Sprintf("judge it again with 'dibs torture --judge %s'; please report this with that folder", shellWord(r.Dir)),
		}
	case r.Interrupted && err == nil:
		return &codeError{code: exitInterrupted} // the interrupt has been reported
	}
	return err
}

func writeReport(r *torture.Result, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(torture.WriteReport(f, r), f.Close())
}

func (a *app) tortureText(r *torture.Result, report string) string {
	var b strings.Builder
	verdict := a.paint(green, r.Summary())
	if !r.Kept() {
		verdict = a.paint(red, r.Summary())
	}
	fmt.Fprintf(&b, "\n  %s %s\n\n", a.paint(bold, "Verdict:"), verdict)
	for _, v := range r.Verdicts {
		a.tortureLine(&b, fmt.Sprintf("%d. ", v.Number), v.Promise, plural(v.Checked, "case")+" checked", v.Checked, len(v.Broken))
	}
	checked := plural(r.Orders.Checked, "job") + " checked"
	if n := r.Orders.Undecided; n > 0 {
		checked += fmt.Sprintf(", %s not decided", count(int64(n)))
	}
	if r.Adopted == "" {
		a.tortureLine(&b, "", "Linearizability: for each job, one order of all calls explains every answer.", checked, r.Orders.Checked, len(r.Orders.Broken))
	}
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

// tortureLine formats the verdict on one promise.
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
	switch {
	case broken > 0:
		verdict = a.paint(red, torture.BrokenText(broken))
	case checked == 0:
		verdict = "so it was not tried"
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
	if n := len(t.Unhindered); n > 0 {
		row(n, fmt.Sprintf("abandoned jobs started again %s (median), %s (99 %%), %s (longest) after their leases",
			hundredths(t.Unhindered.Quantile(0.5)), hundredths(t.Unhindered.Quantile(0.99)), hundredths(t.Unhindered.Quantile(1))))
	}
	if n := len(t.Recoveries) - len(t.Unhindered); n > 0 {
		row(n, fmt.Sprintf("more that may have had to wait, for the server, a limit, their group, a pause or better jobs, the longest for %s", tenths(t.Recoveries.Quantile(1))))
	}
	fmt.Fprintf(&b, "\n  %s %s, dibs %s, %s, %s; once more: %s\n", r.Database, r.Version, r.Dibs, r.Platform, plural(r.Cores, "core"), r.Command)
	return b.String()
}

func hundredths(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
