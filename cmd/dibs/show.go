package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newShowCmd(a *app) *cobra.Command {
	var payload, result bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one job with its payload, result and errors",
		Example: `  dibs show 17
  dibs show 17 --json
  dibs show 17 --payload > payload.json`,
		Args: asking("job", "17", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := parseID(args[0]); err != nil && a.table == "" {
				return err
			}
			return a.withTable(cmd.Context(), func(db jobTable) error {
				id, err := idOf(db, args[0])
				if err != nil {
					return err
				}
				j, err := db.Get(cmd.Context(), id)
				if err != nil {
					return err
				}
				switch {
				case payload:
					err = a.writeRaw(j.Payload)
				case result:
					if len(j.Result) > 0 {
						err = a.writeRaw(append(j.Result, '\n'))
					}
				case a.json:
					var w why
					if w, _, err = whyOf(cmd.Context(), db, j); err != nil {
						return err
					}
					err = a.writeJSON(heldJobJSON{j, a.holdsOf(&w, j)})
				default:
					var w why
					if w, _, err = whyOf(cmd.Context(), db, j); err == nil {
						a.writeJob(j, a.holdsOf(&w, j))
					}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "write only the payload, byte for byte as it was enqueued; a terminal gets\ncontrol characters as \\u escapes")
	cmd.Flags().BoolVar(&result, "result", false, "write only the result, with a line end")
	cmd.MarkFlagsMutuallyExclusive("payload", "result")
	return cmd
}

// writeRaw writes bytes unchanged, but escapes what could harm a terminal.
func (a *app) writeRaw(raw []byte) error {
	to := a.screen
	if a.outTTY {
		to = a.stdout
	}
	_, err := to.Write(raw)
	return err
}

// heldJobJSON is a job with the reasons why it does not start.
type heldJobJSON struct {
	*dibs.RawJob
	Why []hold `json:"why,omitempty"`
}

// writeJob writes a job as text, with the reasons why it does not start.
func (a *app) writeJob(j *dibs.RawJob, why []hold) {
	now := time.Now()
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.stdout, "  %s  %s\n", a.paint(faint, fmt.Sprintf("%-9s", name)), value)
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05.000") + a.paint(faint, " ("+since(now, t)+")")
	}
	title, state := fmt.Sprintf("job %d", j.ID), a.paintState(j.State)
	if a.adopted != nil {
		title = "row " + printable(keyOf(j))
		if j.State == dibs.Completed {
			state = "ended" // only the table knows in which final state
		}
	}
	fmt.Fprintf(a.stdout, "%s  %s\n", a.paint(bold, title), state)
	line("queue", printable(j.Queue))
	if a.adopted.knows("KIND") {
		line("kind", printable(j.Kind))
	}
	if a.adopted == nil {
		line("priority", fmt.Sprint(j.Priority))
	}
	if a.adopted.knows("ATTEMPT") {
		line("attempt", attemptText(j))
	}
	if j.Group != "" {
		line("group", fmt.Sprintf("%s (%d at a time)", printable(j.Group), j.GroupLimit))
	}
	if j.UniqueKey != "" {
		line("unique", fmt.Sprintf("%s (until %s)", printable(j.UniqueKey), j.UniqueUntil))
	}
	line("key until", at(j.UniqueFreeAt))
	line("schedule", printable(j.Schedule))
	line("tick", at(j.Tick))
	line("created", at(j.CreatedAt))
	line("run_at", at(j.RunAt))
	for i, h := range why {
		line(map[bool]string{true: "held up"}[i == 0], a.paint(yellow, h.Text))
	}
	line("claimed", at(j.ClaimedAt))
	line("finished", at(j.FinishedAt))
	line("worker", printable(j.Worker))
	line("lease", at(j.LeaseUntil))
	if p := j.Progress; p != nil {
		line("progress", progressText(p)+a.paint(faint, " ("+since(now, p.At)+")"))
	}
	if j.CancelRequested {
		line("cancel", a.paint(yellow, "requested"))
	}
	if j.Fault != "" {
		line("fault", a.paint(red, printable(j.Fault)))
	}
	line("metadata", indentJSON(j.Metadata))
	line("payload", indentJSON(j.Payload))
	line("result", indentJSON(j.Result))
	a.writeErrors(j, at)
}

func (a *app) writeErrors(j *dibs.RawJob, at func(time.Time) string) {
	for _, e := range j.Errors {
		what := a.paint(red, "attempt unknown") // the stored errors are damaged
		if e.Attempt > 0 {
			what = a.paint(red, fmt.Sprintf("attempt %d failed", e.Attempt)) + " at " + at(e.At)
		}
		if e.Worker != "" {
			what += " on " + printable(e.Worker)
		}
		if !e.ClaimedAt.IsZero() {
			what += a.paint(faint, fmt.Sprintf(" (waited %s, ran %s)", roughly(e.ClaimedAt.Sub(e.RunAt)), roughly(e.At.Sub(e.ClaimedAt))))
		}
		fmt.Fprintf(a.stdout, "  %s\n", what)
		for text := range strings.Lines(e.Error) {
			fmt.Fprintf(a.stdout, "    %s\n", printable(strings.TrimRight(text, "\r\n")))
		}
	}
}

// progressText is a progress in words.
func progressText(p *dibs.Progress) string {
	s := strconv.FormatInt(p.Done, 10)
	if p.Total > 0 {
		s += fmt.Sprintf(" of %d (%.0f %%)", p.Total, math.Floor(float64(p.Done)/float64(p.Total)*100))
	}
	if p.Text != "" {
		s += ", " + oneLine(p.Text)
	}
	return s
}

func attemptText(j *dibs.RawJob) string {
	s := strconv.Itoa(j.Attempt - j.Excused)
	if j.MaxAttempts > 0 {
		s += fmt.Sprintf(" of %d", j.MaxAttempts)
	}
	if j.Excused > 0 {
		s += fmt.Sprintf(" (claimed %s, %d not counted)", times(j.Attempt), j.Excused)
	}
	return s
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// indentJSON indents JSON under the column of values.
func indentJSON(raw json.RawMessage) string {
	if !json.Valid(raw) {
		return printable(string(raw))
	}
	return words.Indented(raw, "             ")
}
