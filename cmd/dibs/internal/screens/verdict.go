package screens

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/words"
)

// Verdict formats the verdict on a run. The report is the file with its page, if there is one.
func (s *Screen) Verdict(r *torture.Result, report string) string {
	var b strings.Builder
	st := green
	if !r.Kept() {
		st = red
	}
	fmt.Fprintf(&b, "\n  %s %s\n\n", s.paint(bold, "Verdict:"), s.paint(st, r.Summary()))
	for _, row := range r.Rows() {
		s.row(&b, row)
	}
	b.WriteString("\n")
	if r.Demo != nil {
		s.demoFigures(&b, r)
	} else {
		s.figures(&b, r)
	}
	if v := r.Offence(); v != nil {
		fmt.Fprintf(&b, "\n  %s %s\n", s.paint(bold, "The shortest history that shows it:"), s.paint(red, v.Text))
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

// row formats one line of the verdict, with the first few cases that broke it.
func (s *Screen) row(b *strings.Builder, r torture.Row) {
	mark := s.paint(green, "✓")
	switch {
	case !r.Kept:
		mark = s.paint(red, "✗")
	case r.Sentence && r.Checked == 0:
		mark = s.paint(yellow, "-")
	}
	if r.Sentence {
		lines := strings.Split(lipgloss.NewStyle().Width(max(40, min(s.Width, 100)-8)).Render(r.Text), "\n")
		for i, l := range lines {
			if i > 0 {
				mark = "    "
			}
			fmt.Fprintf(b, "  %s %s\n", mark, strings.TrimRight(l, " "))
		}
		fmt.Fprintf(b, "       %s\n", s.judged(r))
	} else {
		fmt.Fprintf(b, "  %s %-52s %s\n", mark, r.Text, found(r))
	}
	for _, c := range r.Broken {
		fmt.Fprintf(b, "      %s\n", s.paint(red, c))
	}
}

// judged says of a promise how many cases were checked, and how many of them broke it.
func (s *Screen) judged(r torture.Row) string {
	checked := words.Plural(r.Checked, "case") + " checked, "
	if r.Undecided > 0 {
		checked += words.Count(int64(r.Undecided)) + " not decided, "
	}
	switch checked = s.paint(faint, checked); {
	case !r.Kept:
		return checked + s.paint(red, torture.BrokenText(r.Got))
	case r.Checked == 0:
		return checked + "so it was not tried"
	}
	return checked + "none broken"
}

// found formats a count, and how many were expected or, where there should be none, how many checks looked.
func found(r torture.Row) string {
	got := words.Count(int64(r.Got))
	if r.Checked > 0 {
		return got + " in " + words.Plural(r.Checked, "check")
	}
	return got + " of " + words.Count(int64(r.Want))
}

// figures are those of a torture.
func (s *Screen) figures(b *strings.Builder, r *torture.Result) {
	t := &r.Totals
	row := func(n int, text string) { fmt.Fprintf(b, "  %12s  %s\n", words.Count(int64(n)), text) }
	count := func(n int) string { return words.Count(int64(n)) }
	row(t.Operations, fmt.Sprintf("operations on jobs in %s (%s/s): enqueued %s, claimed %s, finished %s, others %s",
		tenths(r.Took), words.Count(int64(float64(t.Operations)/r.Took.Seconds())),
		count(t.Enqueued), count(t.Claimed), count(t.Finished), count(t.Others)))
	if t.Followers > 0 {
		row(t.Followers, fmt.Sprintf("jobs came after others, %s were added by others, %s steps were written", count(t.Added), count(t.Steps)))
	}
	row(t.Calls, fmt.Sprintf("calls, of which %s had no answer", count(t.Unanswered)))
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
	fmt.Fprintf(b, "\n  %s %s, dibs %s, %s, %s; once more: %s\n", r.Database, r.Version, r.Dibs, r.Platform, words.Plural(r.Cores, "core"), r.Command)
}

// demoFigures are those of a demo.
func (s *Screen) demoFigures(b *strings.Builder, r *torture.Result) {
	fmt.Fprintf(b, "  %s in %s attempts by %d worker processes took %s.\n",
		words.Plural(r.Demo.Jobs, "job"), words.Count(int64(r.Demo.Attempts)), torture.DemoWorkers+1, tenths(r.Took))
	if p50, longest := r.Demo.RecoveryTimes(); longest > 0 {
		fmt.Fprintf(b, "  The killed worker's jobs ran elsewhere after %s (median), %s (last);\n"+
			"  leases were %v long here, the default is 10s.\n", tenths(p50), tenths(longest), torture.DemoLease)
	}
	var waits []string
	for _, w := range r.Demo.Waits {
		waits = append(waits, fmt.Sprintf("%d: %s", w.Priority, tenths(w.Average)))
	}
	if len(waits) > 0 {
		fmt.Fprintf(b, "  Average wait at priority %s.\n", strings.Join(waits, ", "))
	}
}

// Next suggests commands to try after a demo. The program is the name by which this command was called.
func (s *Screen) Next(program string) string {
	if strings.Contains(program, "go-build") {
		program = "go run ./cmd/dibs" // go run's temporary path would be of no use
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s\n", s.paint(bold, "Next, your own jobs (in ./dibs.db):"))
	for _, l := range [][2]string{
		{"add one", `enqueue hello '{"name":"Ann"}'`},
		{"run cat for each", "work hello -- cat"},
		{"watch the queues", "top"},
	} {
		fmt.Fprintf(&b, "    %s  %s\n", s.paint(faint, fmt.Sprintf("%-16s", l[0])), s.paint(cyan, program+" "+l[1]))
	}
	return b.String()
}

func tenths(d time.Duration) string     { return fmt.Sprintf("%.1f s", d.Seconds()) }
func hundredths(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
