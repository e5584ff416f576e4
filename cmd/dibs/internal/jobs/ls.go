package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newLsCmd(a *app) *cobra.Command {
	var f admin.Filter
	var all bool
	var flow int64
	var since, before cmdline.TimeFlag
	cmd := &cobra.Command{
		Use:   "ls [QUEUE]",
		Short: "List jobs",
		Long: `List jobs, newest first: waiting, blocked and running ones, or those in one state.
Finished jobs are listed by --state completed, dead or cancelled, last finished
first, for as long as their queue keeps them.

A list has up to --limit jobs, and fewer when they are not among 100,000 looked at (10,000
with --payload). No index finds a --worker or a text; --finished-since is quick.
--after takes what the list before ended with, to go on from there; --all goes on to the
end. With --json each page is one object with "jobs" and, if there are more, "next" for
--after.

With --table, rows are listed in the order in which they are claimed. What has ended can
only be looked at with SQL, but for dead rows where the mapping has a side table.`,
		Example: `  dibs ls emails
  dibs ls --state dead --limit 20
  dibs ls --state dead --error "connection refused" --finished-since "2026-12-31 09:00"
  dibs ls --all --json | jq -c '.jobs[] | {id, payload}'`,
		Args: cmdline.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmdline.QueueArg(cmd, args, &f.Queue); err != nil {
				return err
			}
			if cmd.Flags().Changed("limit") && f.Limit < 1 {
				return &dibs.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be 1 to 1000, got %d", f.Limit)}
			}
			if err := checkFlow(cmd, flow); err != nil {
				return err
			} else if flow != 0 && f.Queue != "" {
				return cmdline.Usagef(cmd, "a flow may have jobs of any queue: give --flow without a queue")
			}
			f.FinishedSince, f.FinishedBefore = time.Time(since), time.Time(before)
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				read, err := lister(cmd.Context(), db, flow)
				if err != nil {
					return err
				}
				if err = a.list(cmd.Context(), db, read, f, all); err == nil {
					a.TellStuck(cmd.Context())
				}
				return err
			})
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.Queue, "queue", "q", "", "only jobs of this `queue`, as the argument")
	fs.StringVarP((*string)(&f.State), "state", "s", "", "only jobs in this `state`, such as running or dead")
	fs.StringVarP(&f.Kind, "kind", "k", "", "only jobs of this `kind`")
	fs.StringVarP(&f.Group, "group", "g", "", "only jobs of this `group`")
	fs.StringVarP(&f.Worker, "worker", "w", "", "only jobs that this `worker` claimed last")
	fs.StringVar(&f.Error, "error", "", "only jobs with this `text` in their last error")
	fs.StringVar(&f.Payload, "payload", "", "only jobs with this `text` in their payload")
	fs.StringVar(&f.UniqueKey, "unique", "", "only the job that holds this unique `key` now; with a QUEUE alone")
	fs.Int64Var(&flow, "flow", 0, "only jobs of the flow of the job with this `id`; with a final\n--state those that ended so and were needed")
	fs.BoolVar(&f.Scheduled, "scheduled", false, "only jobs whose time has not come; with --state waiting")
	fs.Var(&since, "finished-since", "only jobs that ended at this `time` or later; with a final --state")
	fs.Var(&before, "finished-before", "only jobs that ended before this `time`; with a final --state")
	fs.IntVarP(&f.Limit, "limit", "n", 100, "how many at most, `1-1000`")
	fs.StringVar(&f.After, "after", "", "go on after `PLACE`, where the list before ended")
	fs.BoolVar(&all, "all", false, "go on to the end")
	flowAlone(cmd, "queue", "kind", "group", "worker", "error", "payload", "unique", "scheduled", "finished-since", "finished-before")
	return cmd
}

// listing reads a page of a list.
type listing func(context.Context, admin.Filter) (admin.Page, error)

// lister is how a list is read: of the jobs of a flow, unless that is 0.
func lister(ctx context.Context, db cmdline.JobTable, flow int64) (listing, error) {
	if flow == 0 {
		return db.List, nil
	}
	number, flows, err := flowOf(ctx, db, flow, fmt.Sprintf("'dibs show %d' shows it", flow))
	return func(ctx context.Context, f admin.Filter) (admin.Page, error) {
		return pageOfFlow(ctx, db, flows, number, f)
	}, err
}

// pageOfFlow reads a page of the jobs of a flow, newest first.
func pageOfFlow(ctx context.Context, db cmdline.JobTable, flows flowLister, flow int64, f admin.Filter) (page admin.Page, err error) {
	var before int64
	if f.After != "" {
		if before, err = cmdline.ParseID(f.After); err != nil {
			return page, &dibs.InvalidError{Field: "after", Reason: fmt.Sprintf("must be what the list before ended with, got %q", f.After)}
		}
	}
	ids, err := flows.FlowJobs(ctx, flow, f.State, before)
	if err != nil {
		return page, err
	}
	if len(ids) > f.Limit {
		ids = ids[:f.Limit]
		page.Next = strconv.FormatInt(ids[f.Limit-1], 10)
	}
	for _, id := range ids {
		j, err := db.Get(ctx, id)
		if errors.Is(err, dibs.ErrNotFound) { // it was deleted just now
			continue
		} else if err != nil {
			return page, err
		}
		page.Jobs = append(page.Jobs, j)
	}
	return page, nil
}

func (a *app) list(ctx context.Context, db cmdline.JobTable, read listing, f admin.Filter, all bool) error {
	if err := cmdline.CheckQueue(ctx, db, f.Queue); err != nil {
		return err
	}
	first := true
	var w holdups.Look
	var waiting []admin.QueueStats // queues of the first page's jobs that wait
	for pages := 0; ; pages++ {
		page, err := read(ctx, f)
		if err != nil {
			return err
		}
		if pages == 0 {
			if w, waiting, err = whyOf(ctx, db, page.Jobs...); err != nil {
				return err
			}
		}
		switch {
		case a.JSON:
			if page.Jobs == nil {
				page.Jobs = []*dibs.RawJob{}
			}
			err = a.WriteJSON(PageJSON{page, w.InQueues(waiting)})
			waiting = nil
		case len(page.Jobs) > 0:
			a.writeJobs(page.Jobs)
			first = false
		case page.Next == "" && first:
			fmt.Fprintln(a.Stdout, a.noJobs(f.State))
		case !all:
			fmt.Fprintln(a.Stdout, "no such jobs among the first 100,000")
		}
		if err != nil || page.Next == "" {
			a.writeWhy(&w, waiting)
			return err
		}
		if !all {
			if !a.JSON {
				a.sayMore(page.Next)
				a.writeWhy(&w, waiting)
			}
			return nil
		}
		f.After = page.Next
	}
}

// sayMore says how to go on after a page.
func (a *app) sayMore(next string) {
	a.Say("%s", a.Paint(term.Faint, "there are more: --after "+next+", or --all"))
}

// noJobs says that none were found: without a state, none of those that have not ended.
func (a *app) noJobs(state dibs.State) string {
	if state != "" || a.Adopted != nil {
		return "no such jobs"
	}
	return "no such jobs wait or run; for ended ones see 'dibs ls --state completed', dead or cancelled"
}

// PageJSON is a page with the reasons why due jobs do not start in the queues of its jobs.
type PageJSON struct {
	admin.Page
	Why []holdups.Hold `json:"why,omitempty"`
}

func (a *app) writeJobs(jobs []*dibs.RawJob) {
	grouped := false
	for _, j := range jobs {
		grouped = grouped || j.Group != ""
	}
	headings := []string{"#ID", "STATE", "QUEUE", "KIND", "#PRIORITY", "#ATTEMPT", "WHEN", "NOTE"}
	if grouped {
		headings = append(headings[:4:4], append([]string{"GROUP"}, headings[4:]...)...)
	}
	t := a.TableOf(cmdline.KnownCells(a.Adopted, headings, headings)...)
	now := time.Now()
	for _, j := range jobs {
		row := []any{a.Cell(term.KeyOf(j), 40), a.PaintState(j.State), a.NameCell(j.Queue, 16), a.NameCell(j.Kind, 16)}
		if grouped {
			row = append(row, a.NameCell(j.Group, 14))
		}
		row = append(row, j.Priority, a.attempts(j), stateTime(now, j), a.Paint(term.Faint, a.Cell(Note(j), 60)))
		t.AppendRow(cmdline.KnownCells(a.Adopted, headings, row))
	}
	t.Render()
}

// attempts formats the counted attempts and their limit.
func (a *app) attempts(j *dibs.RawJob) string {
	switch {
	case !a.Adopted.Knows("ATTEMPT"):
		return "-"
	case j.MaxAttempts == 0:
		return strconv.Itoa(j.Attempt - j.Excused)
	}
	return fmt.Sprintf("%d/%d", j.Attempt-j.Excused, j.MaxAttempts)
}

// unswept is how long after its lease has ended a job counts as left behind: any worker would
// have given it to another by then.
const unswept = 5 * time.Second

// stateTime formats the time that matters in the job's state, or "-" if the table does not know it.
func stateTime(now time.Time, j *dibs.RawJob) string {
	switch {
	case j.State == dibs.Running && j.ClaimedAt.IsZero(), j.State.Final() && j.FinishedAt.IsZero(), j.State == dibs.Waiting && j.RunAt.IsZero():
		return "-"
	case j.State == dibs.Running && !j.LeaseUntil.IsZero() && now.Sub(j.LeaseUntil) > unswept:
		return "lease ended " + words.Since(now, j.LeaseUntil)
	case j.State == dibs.Running:
		return "for " + words.Roughly(max(0, now.Sub(j.ClaimedAt)))
	case j.State.Final():
		return words.Since(now, j.FinishedAt)
	case j.RunAt.After(now):
		return words.Since(now, j.RunAt)
	case j.WaitsFor > 0:
		return "-"
	case j.HeldUntil.After(now):
		return "held " + words.Roughly(j.HeldUntil.Sub(now))
	}
	return "due for " + words.Roughly(now.Sub(j.RunAt))
}

// Note returns the job's worker, result or last error, or what it waits for or was cancelled for.
func Note(j *dibs.RawJob) string {
	switch {
	case j.CancelRequested && !j.State.Final():
		return "cancel requested; on " + j.Worker
	case j.State == dibs.Running && j.Worker == "":
		return ""
	case j.Progress != nil:
		return ProgressText(j.Progress) + "; on " + j.Worker
	case j.State == dibs.Running:
		return "on " + j.Worker
	case j.State == dibs.Completed:
		return string(j.Result)
	case j.State == dibs.Blocked && j.WaitsFor > 0:
		return "after " + words.Verb(int64(j.WaitsFor), "job that has not ended", "jobs that have not ended")
	case j.Cause != 0:
		return fmt.Sprintf("because of job %d", j.Cause)
	case len(j.Errors) > 0:
		return j.Errors[len(j.Errors)-1].Error
	}
	return ""
}
