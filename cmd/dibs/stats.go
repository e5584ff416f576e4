package main

import (
	"context"
	"fmt"
	"slices"

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
  OLDEST     how long the oldest due, unclaimed job has been due
  WAIT, RUN  average time from start time to claim, and from claim to finish, over
             about the last 5 minutes
  JOBS/S     jobs completed a second over the same time`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withExisting(cmd.Context(), func(db dibs.Database) error {
				stats, err := pickStats(cmd.Context(), db, args)
				if err != nil {
					return err
				}
				return a.writeStats(stats)
			})
		},
		ValidArgsFunction: a.completeQueues,
	}
}

func pickStats(ctx context.Context, db dibs.Queues, names []string) ([]dibs.QueueStats, error) {
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

func (a *app) writeStats(stats []dibs.QueueStats) error {
	if a.json {
		for _, s := range stats {
			if err := a.writeJSON(statsJSONOf(s)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(stats) == 0 {
		fmt.Fprintln(a.stdout, "no queues yet; 'dibs enqueue' makes them")
		return nil
	}
	t := a.tableOf("QUEUE", "#WAITING", "#LATER", "#BLOCKED", "#RUNNING", "#COMPLETED", "#DEAD", "#CANCELLED", "#OLDEST", "#WAIT", "#RUN", "#JOBS/S")
	for _, s := range stats {
		name := a.cell(s.Queue, 20)
		if s.Paused {
			name += a.paint(yellow, " (paused)")
		}
		later := count(s.Scheduled)
		if s.ScheduledMore {
			later += "+"
		}
		t.AppendRow(table.Row{
			name,
			count(s.Waiting),
			later,
			count(s.Blocked),
			a.paintCount(cyan, s.Running),
			count(s.Completed),
			a.paintCount(red, s.Dead),
			count(s.Cancelled),
			dash(s.OldestAge != 0, roughly(s.OldestAge)),
			dash(s.Claimed > 0, roughly(s.AvgWait)),
			dash(s.Succeeded+s.Failed > 0, roughly(s.AvgRun)),
			dash(s.Window > 0, fmt.Sprintf("%.1f", s.Throughput)),
		})
	}
	t.Render()
	return nil
}

func (a *app) paintCount(st style, n int64) string {
	if n == 0 {
		st = plain
	}
	return a.paint(st, count(n))
}

func dash(known bool, s string) string {
	if !known {
		return "-"
	}
	return s
}
