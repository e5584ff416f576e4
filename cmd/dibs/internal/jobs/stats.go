package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newStatsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stats [QUEUE]...",
		Short: "Count the jobs of queues",
		Long: `Count the jobs of all queues, or of some. It takes the same short time however long
the queues are, and slows nobody down.

  WAITING    due or not, unclaimed, not blocked by their group
  LATER      of the waiting, those whose start has not come (--json: scheduled)
  BLOCKED    wait for their turns in their groups, which claims give them
  OLDEST     how long the oldest due, unclaimed job has been due
  WAIT, RUN  average time from start time to claim, and from claim to finish, over
             about the last 5 minutes
  JOBS/S     jobs completed a second over the same time

Where due jobs do not start, it says why (--json: why), as far as it can be known from the
register of workers ('dibs workers'), the settings, and the kinds of the first 1,000 jobs.

A queue is (miscounted) while its counts cannot be right, as somebody has inserted or deleted
rows with SQL. Workers count anew within about a minute; so does 'dibs check --repair'.

With --table it counts the rows that have not ended, by reading all of them. Rows that wait
for a place in their group count as WAITING. Values that the table does not have are left out.
Below it says which rows no claim can take as they are, whether rows in progress hold all
places of groups or of the queue, and which of the next 20 rows the table refuses to have
claimed: that is tried, and rolled back.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				stats, err := pickStats(cmd.Context(), db, args)
				if err != nil {
					return err
				}
				w, err := holdups.Read(cmd.Context(), db, stats)
				if err != nil {
					return err
				}
				err = a.writeStats(stats, &w)
				if err == nil {
					a.TellStuck(cmd.Context())
					a.TellRefused(cmd.Context())
				}
				return err
			})
		},
		ValidArgsFunction: a.CompleteQueues,
	}
}

func pickStats(ctx context.Context, db cmdline.JobTable, names []string) ([]admin.QueueStats, error) {
	stats, err := db.Stats(ctx)
	if err != nil || len(names) == 0 {
		return stats, err
	}
	picked := make([]admin.QueueStats, 0, len(names))
	for _, name := range names {
		i := slices.IndexFunc(stats, func(s admin.QueueStats) bool { return s.Queue == name })
		if i < 0 {
			known := make([]string, len(stats))
			for i := range stats {
				known[i] = stats[i].Queue
			}
			return nil, cmdline.UnknownQueue(name, known)
		}
		picked = append(picked, stats[i])
	}
	return picked, nil
}

func (a *app) writeStats(stats []admin.QueueStats, w *holdups.Look) error {
	if a.JSON {
		return term.WriteEach(&a.Terminal, stats, func(s admin.QueueStats) any { return a.statsJSON(s, w) })
	}
	if len(stats) == 0 {
		fmt.Fprintln(a.Stdout, "no queues yet; 'dibs enqueue' makes them")
		return nil
	}
	headings := []string{"QUEUE", "#WAITING", "#LATER", "#BLOCKED", "#RUNNING", "#COMPLETED", "#DEAD", "#CANCELLED", "#OLDEST", "#WAIT", "#RUN", "#JOBS/S"}
	t := a.TableOf(cmdline.KnownCells(a.Adopted, headings, headings)...)
	for _, s := range stats {
		t.AppendRow(cmdline.KnownCells(a.Adopted, headings, a.statsRow(s)))
	}
	if a.OutTTY { // a terminal has less room
		t.DropEmptyColumns()
	}
	t.Render()
	a.writeWhy(w, stats)
	return nil
}

func (a *app) statsRow(s admin.QueueStats) []any {
	name := a.Cell(s.Queue, 20)
	if s.Paused {
		name += a.Paint(term.Yellow, " (paused)")
	}
	if s.Miscounted {
		name += a.Paint(term.Yellow, " (miscounted)")
	}
	later := a.CountCell(term.Plain, s.Scheduled)
	if s.ScheduledMore {
		later += "+"
	}
	return []any{
		name,
		words.Count(s.Waiting),
		later,
		a.CountCell(term.Yellow, s.Blocked),
		a.CountCell(term.Cyan, s.Running),
		a.CountCell(term.Plain, s.Completed),
		a.CountCell(term.Red, s.Dead),
		a.CountCell(term.Plain, s.Cancelled),
		a.DurationCell(s.OldestAge != 0, s.OldestAge),
		a.DurationCell(s.Claimed > 0, s.AvgWait),
		a.DurationCell(s.Succeeded+s.Failed > 0, s.AvgRun),
		a.Rate(s),
	}
}
