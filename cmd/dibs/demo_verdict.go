package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/demo"
	"github.com/dibs-queue/dibs/internal/wire"
)

type demoVerdictJSON struct {
	Kept        bool           `json:"kept"`
	Jobs        int            `json:"jobs"`
	Attempts    int            `json:"attempts"`
	Took        wire.Seconds   `json:"took"`
	RecoveryP50 wire.Seconds   `json:"recovery_p50"`
	RecoveryMax wire.Seconds   `json:"recovery_max"`
	Promises    []demo.Promise `json:"promises"`
}

// writeDemoVerdict prints the verdict, and returns an error if a promise was broken.
func (a *app) writeDemoVerdict(r demo.Result, program string) error {
	if a.json {
		if err := a.writeJSON(verdictJSONOf(r)); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.stdout, a.verdictText(r))
		if r.Kept() {
			fmt.Fprint(a.stdout, a.demoNext(program))
		}
	}
	if !r.Kept() {
		return &hintError{
			err:  &codeError{exitFailure, fmt.Errorf("a promise was broken")},
			next: "the workers' notes and the jobs were kept; please report this with them",
		}
	}
	return nil
}

func verdictJSONOf(r demo.Result) demoVerdictJSON {
	p50, longest := r.RecoveryTimes()
	return demoVerdictJSON{
		Kept: r.Kept(), Jobs: r.Jobs, Attempts: r.Attempts, Took: wire.Seconds(r.Took),
		RecoveryP50: wire.Seconds(p50), RecoveryMax: wire.Seconds(longest), Promises: r.Promises,
	}
}

func (a *app) verdictText(r demo.Result) string {
	var b strings.Builder
	verdict := a.paint(green, "every promise was kept")
	if !r.Kept() {
		verdict = a.paint(red, "a promise was broken")
	}
	fmt.Fprintf(&b, "\n  %s %s\n\n", a.paint(bold, "Verdict:"), verdict)
	for _, p := range r.Promises {
		mark := a.paint(green, "✓")
		if !p.Kept {
			mark = a.paint(red, "✗")
		}
		fmt.Fprintf(&b, "  %s %-52s %s\n", mark, p.Text, found(p))
		for _, c := range p.Broken {
			fmt.Fprintf(&b, "      %s\n", a.paint(red, c))
		}
	}
	fmt.Fprintf(&b, "\n  %s in %s attempts by %d worker processes took %s.\n",
		plural(r.Jobs, "job"), count(int64(r.Attempts)), demoWorkers+1, tenths(r.Took))
	if p50, longest := r.RecoveryTimes(); longest > 0 {
		fmt.Fprintf(&b, "  The killed worker's jobs ran elsewhere after %s (median), %s (last);\n"+
			"  leases were %v long here, the default is 10s.\n", tenths(p50), tenths(longest), demo.Lease)
	}
	var waits []string
	for _, w := range r.Waits {
		waits = append(waits, fmt.Sprintf("%d: %s", w.Priority, tenths(w.Average)))
	}
	if len(waits) > 0 {
		fmt.Fprintf(&b, "  Average wait at priority %s.\n", strings.Join(waits, ", "))
	}
	return b.String()
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// found formats a count, and how many were expected or, where there should be none, how many checks looked.
func found(p demo.Promise) string {
	got := count(int64(p.Got))
	if p.Checked > 0 {
		return got + " in " + plural(p.Checked, "check")
	}
	return got + " of " + count(int64(p.Want))
}

// demoNext suggests commands to try next. program is the name by which this command was called.
func (a *app) demoNext(program string) string {
	if strings.Contains(program, "go-build") {
		program = "go run ./cmd/dibs" // go run's temporary path would be of no use
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s\n", a.paint(bold, "Next, your own jobs (in ./dibs.db):"))
	for _, l := range [][2]string{
		{"add one", `enqueue hello '{"name":"Ann"}'`},
		{"run cat for each", "work hello -- cat"},
		{"watch the queues", "top"},
	} {
		fmt.Fprintf(&b, "    %s  %s\n", a.paint(faint, fmt.Sprintf("%-16s", l[0])), a.paint(cyan, program+" "+l[1]))
	}
	return b.String()
}
