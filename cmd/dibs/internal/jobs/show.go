package jobs

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
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
		Args: cmdline.Asking("job", "17", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := cmdline.ParseID(args[0]); err != nil && a.Table == "" {
				return err
			}
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				id, err := cmdline.IDOf(db, args[0])
				if err != nil {
					return err
				}
				j, err := db.Get(cmd.Context(), id)
				if err != nil {
					return err
				}
				switch {
				case payload:
					err = a.WriteRaw(j.Payload)
				case result:
					if len(j.Result) > 0 {
						err = a.WriteRaw(append(j.Result, '\n'))
					}
				default:
					w, _, err := whyOf(cmd.Context(), db, j)
					if err != nil {
						return err
					}
					steps, err := stepsOf(cmd.Context(), db, j)
					switch {
					case err != nil:
						return err
					case a.JSON:
						return a.WriteJSON(HeldJobJSON{j, a.holdsOf(&w, j), steps})
					}
					a.writeJob(j, a.holdsOf(&w, j), becauseOf(cmd.Context(), db, j), steps)
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

// HeldJobJSON is a job with the reasons why it does not start.
type HeldJobJSON struct {
	*dibs.RawJob
	Why   []holdups.Hold  `json:"why,omitempty"`
	Steps []dibs.StepDone `json:"steps,omitempty"` // those that are done, the first first
}

// stepsOf lists the steps of a job that are done, the first first.
func stepsOf(ctx context.Context, db cmdline.JobTable, j *dibs.RawJob) ([]dibs.StepDone, error) {
	store, ok := db.(dibs.StepStore)
	if !ok {
		return nil, nil
	}
	return store.Steps(ctx, dibs.Lease{ID: j.ID})
}

// stepLines has a line for each step, with the beginning of its value.
func (a *app) stepLines(steps []dibs.StepDone) string {
	lines := make([]string, len(steps))
	for i, s := range steps {
		lines[i] = words.Printable(s.Name) + "  " + a.Paint(term.Faint, words.Printable(words.Clip(string(s.Value[:min(len(s.Value), 400)]), 80)))
	}
	return strings.Join(lines, "\n")
}

// writeJob writes a job as text, with the reasons why it does not start, and because of what it was cancelled.
func (a *app) writeJob(j *dibs.RawJob, why []holdups.Hold, cause string, steps []dibs.StepDone) {
	now := time.Now()
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05.000") + a.Paint(term.Faint, " ("+words.Since(now, t)+")")
	}
	title, state := fmt.Sprintf("job %d", j.ID), a.PaintState(j.State)
	if a.Adopted != nil {
		title = "row " + words.Printable(term.KeyOf(j))
		if j.State == dibs.Completed {
			state = "ended" // only the table knows in which final state
		}
	}
	lines := []term.Entry{{Name: "queue", Value: words.Printable(j.Queue)}}
	add := func(known bool, name, value string) {
		if known {
			lines = append(lines, term.Entry{Name: name, Value: value})
		}
	}
	add(a.Adopted.Knows("KIND"), "kind", words.Printable(j.Kind))
	add(a.Adopted == nil, "priority", fmt.Sprint(j.Priority))
	add(a.Adopted.Knows("ATTEMPT"), "attempt", attemptText(j))
	add(j.Group != "", "group", fmt.Sprintf("%s (%d at a time)", words.Printable(j.Group), j.GroupLimit))
	add(j.UniqueKey != "", "unique", fmt.Sprintf("%s (until %s)", words.Printable(j.UniqueKey), j.UniqueUntil))
	add(true, "key until", at(j.UniqueFreeAt))
	add(true, "schedule", words.Printable(j.Schedule))
	add(true, "tick", at(j.Tick))
	add(true, "created", at(j.CreatedAt))
	add(true, "run_at", at(j.RunAt))
	for i, h := range why {
		add(true, map[bool]string{true: "held up"}[i == 0], a.Paint(term.Yellow, h.Text))
	}
	add(cause != "", "cancelled", a.Paint(term.Yellow, "because "+cause))
	add(j.Flow != 0, "flow", fmt.Sprintf("%d%s", j.Flow, a.Paint(term.Faint, fmt.Sprintf(" ('dibs flow %d')", j.ID))))
	add(true, "claimed", at(j.ClaimedAt))
	add(true, "finished", at(j.FinishedAt))
	add(true, "worker", words.Printable(j.Worker))
	add(true, "lease", at(j.LeaseUntil))
	if p := j.Progress; p != nil {
		add(true, "progress", ProgressText(p)+a.Paint(term.Faint, " ("+words.Since(now, p.At)+")"))
	}
	add(true, "steps", a.stepLines(steps))
	add(j.CancelRequested && !j.State.Final(), "cancel", a.Paint(term.Yellow, "requested"))
	add(j.Fault != "", "fault", a.Paint(term.Red, words.Printable(j.Fault)))
	add(true, "metadata", term.IndentJSON(j.Metadata))
	add(true, "payload", term.IndentJSON(j.Payload))
	add(true, "result", term.IndentJSON(j.Result))
	a.Block(a.Paint(term.Bold, title)+"  "+state, lines)
	a.writeErrors(j, at)
}

func (a *app) writeErrors(j *dibs.RawJob, at func(time.Time) string) {
	for _, e := range j.Errors {
		what := a.Paint(term.Red, "attempt unknown") // the stored errors are damaged
		if e.Attempt > 0 {
			what = a.Paint(term.Red, fmt.Sprintf("attempt %d failed", e.Attempt)) + " at " + at(e.At)
		}
		if e.Worker != "" {
			what += " on " + words.Printable(e.Worker)
		}
		if !e.ClaimedAt.IsZero() {
			what += a.Paint(term.Faint, fmt.Sprintf(" (waited %s, ran %s)", words.Roughly(e.ClaimedAt.Sub(e.RunAt)), words.Roughly(e.At.Sub(e.ClaimedAt))))
		}
		fmt.Fprintf(a.Stdout, "  %s\n", what)
		for text := range strings.Lines(e.Error) {
			fmt.Fprintf(a.Stdout, "    %s\n", words.Printable(strings.TrimRight(text, "\r\n")))
		}
	}
}

// ProgressText is a progress in words.
func ProgressText(p *dibs.Progress) string {
	s := strconv.FormatInt(p.Done, 10)
	if p.Total > 0 {
		s += fmt.Sprintf(" of %d (%.0f %%)", p.Total, math.Floor(float64(p.Done)/float64(p.Total)*100))
	}
	if p.Text != "" {
		s += ", " + words.OneLine(p.Text)
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
