package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/failures"
	"github.com/spf13/cobra"
)

func newFailuresCmd(a *app) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "failures [QUEUE]",
		Short: "Group dead jobs by what killed them",
		Long: `Group the last dead jobs of all queues, or of one: jobs of the same queue and kind, whose last
errors differ only in numbers, ids, dates, addresses and quoted texts, are one line. The
group of the job that died last comes first.

  JOBS         how many of the jobs that it looked at, up to --limit
  FIRST, LAST  when the first and the last of them died
  ERROR        their last error, with … for what differs

Below the table stand the commands that show the group of the first line and put its jobs back.
They select by the longest text of its errors, so other errors with that text belong to them too;
--dry-run says how many jobs that is.`,
		Example: `  dibs failures
  dibs failures emails --json | jq '{count, kind, fingerprint, ids}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			queue := strings.Join(args, "")
			if cmd.Flags().Changed("limit") && limit < 1 {
				return &dibs.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d, got %d", dibs.MaxFailures, limit)}
			}
			return a.withExistingDatabase(cmd.Context(), func(db dibs.Database) error {
				return a.failures(cmd.Context(), db, queue, limit)
			})
		},
		ValidArgsFunction: a.completeQueue,
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", dibs.MaxFailures, "how many jobs to look at, at most, `1-10000`")
	return cmd
}

func (a *app) failures(ctx context.Context, db dibs.Database, queue string, limit int) error {
	if err := checkQueue(ctx, db, queue); err != nil {
		return err
	}
	list, err := db.Failures(ctx, queue, limit)
	if err != nil {
		return err
	}
	now := time.Now()
	groups := failures.Of(list, failures.Spans{From: now.Add(-24 * time.Hour), Width: time.Hour, N: 24})
	if a.json {
		for _, g := range groups {
			if err := a.writeJSON(g); err != nil {
				return err
			}
		}
		return nil
	}
	if len(groups) == 0 {
		fmt.Fprintln(a.stdout, "no dead jobs")
		return nil
	}
	t := a.tableOf("#JOBS", "QUEUE", "KIND", "FIRST", "LAST", "ERROR")
	for _, g := range groups {
		t.AppendRow([]any{count(int64(g.Count)), a.cell(g.Queue, 20), a.cell(g.Kind, 20), since(now, g.First), since(now, g.Last), a.cell(g.Fingerprint, 80)})
	}
	t.Render()
	if len(list) == limit {
		fmt.Fprintln(a.stdout, a.paint(faint, "of the last "+plural(limit, "dead job")))
	}
	for _, next := range nextCommands(groups[0]) {
		fmt.Fprintln(a.stdout, a.paint(faint, next))
	}
	return nil
}

// nextCommands are the commands that look at a group's jobs, and put them back.
func nextCommands(g *failures.Group) []string {
	narrow := "--kind " + shellWord(g.Kind)
	if g.Part != "" {
		narrow += " --error " + shellWord(g.Part)
	}
	return []string{
		fmt.Sprintf("dibs show %d", g.IDs[0]),
		command("dibs ls", g.Queue, "--state dead", narrow),
		"dibs requeue --state dead --queue " + shellWord(g.Queue) + " " + narrow + " --dry-run",
	}
}
