package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newFlowCmd(a *app) *cobra.Command {
	var wait bool
	var timeout cmdline.DurationFlag
	cmd := &cobra.Command{
		Use:   "flow ID [flags]",
		Short: "Show what a job comes after, and what comes after it",
		Long: `Show how far the flow of a job is, and of the job itself what it comes after, and what comes
after it. Jobs are counted by queue and kind; ended ones for as long as they are kept. "unneeded"
are jobs for the failure of another that was completed. States without jobs have no column.

A flow is all jobs of one call of Enqueue in which some job comes after another, and what jobs
of the flow add. A job that was enqueued alone with --after ID is a flow of its own. 'dibs
enqueue --jobs' makes calls of up to 10,000 lines and 8 MiB, so a larger file has several flows,
whose jobs still come after each other.

With --wait, dibs waits until all jobs of the flow have ended. The exit code is then 0 if all
have completed or were unneeded, 9 if one is dead or cancelled, and 10 if --timeout was over
before all had ended.`,
		Example: `  dibs flow 17
  dibs flow 17 --wait --timeout 10m`,
		Args: cmdline.Asking("job", "17", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := cmdline.ParseID(args[0])
			switch {
			case err != nil:
				return err
			case cmd.Flags().Changed("timeout") && timeout <= 0:
				return &dibs.InvalidError{Field: "timeout", Reason: "must be longer than 0"}
			case cmd.Flags().Changed("timeout") && !wait:
				return cmdline.Usagef(cmd, "--timeout is for --wait")
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				f, err := db.Flow(cmd.Context(), id, 0)
				if err != nil {
					return err
				}
				late := false
				if wait {
					if late, err = waitForFlow(cmd.Context(), db, &f, time.Duration(timeout)); err != nil {
						return err
					}
				}
				if a.JSON {
					err = a.WriteJSON(f)
				} else {
					err = a.writeFlow(cmd.Context(), db, &f)
				}
				if err != nil || !wait {
					return err
				}
				return flowEnd(&f, late, time.Duration(timeout))
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all jobs of the flow have ended")
	cmd.Flags().Var(&timeout, "timeout", "with --wait, wait no longer than this; 0: as long as it takes")
	return cmd
}

// waitForFlow waits until the jobs of a flow, or the job alone if it has none, have ended, and reads it again. It reports
// whether the time was over before.
func waitForFlow(ctx context.Context, db admin.Database, f *admin.Flow, timeout time.Duration) (late bool, err error) {
	limited, stop := context.WithCancel(ctx)
	if timeout > 0 {
		limited, stop = context.WithTimeout(ctx, timeout)
	}
	defer stop()
	for err == nil {
		live := []int64{f.ID}
		if f.Flow != 0 {
			live, err = db.FlowJobs(limited, f.Flow, "", 0)
		} else if f.State.Final() {
			break
		}
		if err != nil || len(live) == 0 {
			break
		}
		var ended *dibs.RawJob
		if ended, err = db.Wait(limited, live[0]); errors.Is(err, dibs.ErrNotFound) { // its queue does not keep it
			err = nil
		}
		if f.Flow == 0 {
			if ended != nil {
				f.State = ended.State
			}
			break
		}
	}
	if late = errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !errors.Is(err, dibs.ErrUnavailable); err != nil && !late {
		return false, err
	}
	again, err := db.Flow(ctx, f.ID, 0)
	if err == nil {
		*f = again
	} else if errors.Is(err, dibs.ErrNotFound) { // the job was deleted when it ended
		err = nil
	}
	return late, err
}

// flowEnd is the error that gives the exit code of --wait.
func flowEnd(f *admin.Flow, late bool, timeout time.Duration) error {
	sum := admin.SumOf(f.All)
	if f.Flow == 0 {
		sum.Add(f.State, 1)
	}
	others := sum.Dead + sum.Cancelled
	switch {
	case late:
		return &cmdline.CodeError{Code: cmdline.ExitTimeout, Err: fmt.Errorf("%s had not ended after %s", words.Plural(int(sum.Jobs()-sum.Ended()), "job"), wire.FormatDuration(timeout))}
	case others > 0:
		lost := f.Lost
		if f.Flow == 0 {
			lost = []int64{f.ID}
		}
		end := &cmdline.CodeError{Code: cmdline.ExitNotCompleted, Err: fmt.Errorf("%s did not complete%s", words.Plural(int(others), "job"), idsOf(lost, int(others)))}
		if len(lost) == 0 {
			return end
		}
		return &cmdline.HintError{Err: end, Next: fmt.Sprintf("'dibs show %d' says why", lost[0])}
	}
	return nil
}

// idsOf names some of n jobs after their number.
func idsOf(ids []int64, n int) string {
	if len(ids) == 0 {
		return ""
	}
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = strconv.FormatInt(id, 10)
	}
	if len(ids) < n {
		return ", such as " + strings.Join(text, ", ")
	}
	return ": " + strings.Join(text, ", ")
}

// writeFlow writes a flow as text. Of a job that was cancelled it reads because of what.
func (a *app) writeFlow(ctx context.Context, db admin.Database, f *admin.Flow) error {
	title := fmt.Sprintf("job %d", f.ID)
	a.Say("%s  %s", a.Paint(term.Bold, title), a.PaintState(f.State))
	if f.State == dibs.Cancelled {
		j, err := db.Get(ctx, f.ID)
		if err != nil && !errors.Is(err, dibs.ErrNotFound) { // it may have been deleted just now
			return err
		}
		if err == nil && j.Cause != 0 {
			a.Say("cancelled because %s", a.Paint(term.Yellow, becauseOf(ctx, db, j)))
		}
	}
	part := func(what string, rows []admin.FlowRow) {
		if len(rows) == 0 {
			return
		}
		sum := admin.SumOf(rows)
		text := fmt.Sprintf("%s of %s ended (%d %%)", words.Count(sum.Ended()), words.Plural(int(sum.Jobs()), "job"), sum.Ended()*100/sum.Jobs())
		a.Say("\n%s: %s", what, text)
		a.writeFlowRows(rows)
	}
	part(fmt.Sprintf("flow %d", f.Flow), f.All)
	part("it comes after", f.Before)
	part("after it come", f.After)
	if len(f.Before)+len(f.After)+len(f.All) == 0 {
		a.Say("it comes after no other job, and none comes after it")
	}
	if f.More {
		a.Say("and more kinds with fewer jobs")
	}
	switch {
	case f.Caused > 0 && f.State == dibs.Completed:
		a.Say("\n%s not needed, because it was completed", words.Verb(f.Caused, "job was", "jobs were"))
	case f.Caused > 0:
		a.Say("\n%s cancelled because of it; 'dibs requeue %d' puts it and them back", words.Verb(f.Caused, "job was", "jobs were"), f.ID)
	}
	return nil
}

// flowColumn is how many jobs are in one state.
type flowColumn struct {
	heading string
	color   term.Style
	n       int64
}

func flowColumns(r *admin.FlowRow) []flowColumn {
	return []flowColumn{
		{"#WAITING", term.Plain, r.Waiting},
		{"#BLOCKED", term.Yellow, r.Blocked},
		{"#RUNNING", term.Cyan, r.Running},
		{"#COMPLETED", term.Plain, r.Completed},
		{"#DEAD", term.Red, r.Dead},
		{"#CANCELLED", term.Yellow, r.Cancelled},
		{"#UNNEEDED", term.Plain, r.Unneeded},
	}
}

// maxFlowRows is how many rows of each part are written.
const maxFlowRows = 50

// writeFlowRows writes a table with those states that some job of the rows is in.
func (a *app) writeFlowRows(rows []admin.FlowRow) {
	sum := admin.SumOf(rows)
	headings, states := []string{"QUEUE", "KIND"}, flowColumns(&sum)
	for _, c := range states {
		if c.n > 0 {
			headings = append(headings, c.heading)
		}
	}
	t := a.TableOf(headings...)
	for _, r := range rows[:min(len(rows), maxFlowRows)] {
		row := []any{a.NameCell(r.Queue, 24), a.NameCell(r.Kind, 24)}
		for i, c := range flowColumns(&r) {
			if states[i].n > 0 {
				row = append(row, a.CountCell(c.color, c.n))
			}
		}
		t.AppendRow(row)
	}
	t.Render()
	if more := len(rows) - maxFlowRows; more > 0 {
		rest := admin.SumOf(rows[maxFlowRows:])
		a.Say("and %s of %s", words.Plural(int(rest.Jobs()), "job"), words.Plural(more, "more kind"))
	}
}
