package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/jedib0t/go-pretty/v6/table"
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
			return a.withTable(cmd.Context(), func(db jobTable) error {
				stats, err := pickStats(cmd.Context(), db, args)
				if err != nil {
					return err
				}
				w, err := readWhy(cmd.Context(), db, stats)
				if err != nil {
					return err
				}
				err = a.writeStats(stats, &w)
				if err == nil {
					a.tellStuck(cmd.Context())
					a.tellRefused(cmd.Context())
				}
				return err
			})
		},
		ValidArgsFunction: a.completeQueues,
	}
}

func pickStats(ctx context.Context, db jobTable, names []string) ([]dibs.QueueStats, error) {
	stats, err := db.Stats(ctx)
	if err != nil || len(names) == 0 {
		return stats, err
	}
	picked := make([]dibs.QueueStats, 0, len(names))
	for _, name := range names {
		i := slices.IndexFunc(stats, func(s dibs.QueueStats) bool { return s.Queue == name })
		if i < 0 {
			known := make([]string, len(stats))
			for i := range stats {
				known[i] = stats[i].Queue
			}
			return nil, unknownQueue(name, known)
		}
		picked = append(picked, stats[i])
	}
	return picked, nil
}

func (a *app) writeStats(stats []dibs.QueueStats, w *why) error {
	if a.json {
		for _, s := range stats {
			if err := a.writeJSON(a.statsJSON(s, w)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(stats) == 0 {
		fmt.Fprintln(a.stdout, "no queues yet; 'dibs enqueue' makes them")
		return nil
	}
	headings := []string{"QUEUE", "#WAITING", "#LATER", "#BLOCKED", "#RUNNING", "#COMPLETED", "#DEAD", "#CANCELLED", "#OLDEST", "#WAIT", "#RUN", "#JOBS/S"}
	t := a.tableOf(knownCells(a.adopted, headings, headings)...)
	for _, s := range stats {
		t.AppendRow(knownCells(a.adopted, headings, a.statsRow(s)))
	}
	if a.outTTY { // a terminal has less room
		t.SuppressEmptyColumns()
	}
	t.Render()
	a.writeWhy(w, stats)
	return nil
}

func (a *app) statsRow(s dibs.QueueStats) table.Row {
	name := a.cell(s.Queue, 20)
	if s.Paused {
		name += a.paint(yellow, " (paused)")
	}
	if s.Miscounted {
		name += a.paint(yellow, " (miscounted)")
	}
	later := a.countCell(plain, s.Scheduled)
	if s.ScheduledMore {
		later += "+"
	}
	return table.Row{
		name,
		count(s.Waiting),
		later,
		a.countCell(yellow, s.Blocked),
		a.countCell(cyan, s.Running),
		a.countCell(plain, s.Completed),
		a.countCell(red, s.Dead),
		a.countCell(plain, s.Cancelled),
		a.durationCell(s.OldestAge != 0, s.OldestAge),
		a.durationCell(s.Claimed > 0, s.AvgWait),
		a.durationCell(s.Succeeded+s.Failed > 0, s.AvgRun),
		a.rate(s),
	}
}

// countCell and durationCell leave zeros empty on a terminal, so that other values stand
// out. A column without values is left out.
func (a *app) countCell(st style, n int64) string {
	if n == 0 && a.outTTY {
		return ""
	}
	return a.paint(st, count(n))
}

func (a *app) durationCell(known bool, d time.Duration) string {
	if !known && a.outTTY {
		return ""
	}
	return dash(known, roughly(d))
}

// dash replaces an unknown value.
func dash(known bool, s string) string {
	if !known {
		return "-"
	}
	return s
}
