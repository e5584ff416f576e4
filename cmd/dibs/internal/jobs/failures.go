package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/failures"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newFailuresCmd(a *app) *cobra.Command {
	var limit int
	var queue string
	cmd := &cobra.Command{
		Use:   "failures [QUEUE]",
		Short: "Group dead jobs by what killed them",
		Long: `Group the last dead jobs of all queues, or of one: jobs of the same queue and kind, whose last
errors differ only in numbers, ids, dates, addresses and quoted texts, are one line. Codes of
HTTP, SMTP, SQL and the like stay (404, 550 5.1.1, SQLSTATE 23505). The group of the job that
died last comes first.

It reads the last dead jobs of each queue, up to --limit. Of many queues with many dead jobs it
reads fewer of each, 20,000 in all. Where it has not read all, it says so.

  JOBS         how many of the jobs that it read; with a + where it has not read all
  FIRST, LAST  when the first and the last of them died
  ERROR        their last error, with … for what differs; beneath it, that of the last job, whole

Below each group stands the command that lists its jobs. With 'requeue' in place of 'ls' it
requeues them, with 'prune' it deletes them. It selects by the longest text of the group's errors,
so other errors with that text belong to it too; --dry-run says how many jobs that is.`,
		Example: `  dibs failures
  dibs failures emails --json | jq '{count, kind, fingerprint, ids}'`,
		Args: cmdline.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmdline.QueueArg(cmd, args, &queue); err != nil {
				return err
			}
			if limit < 1 || limit > admin.MaxFailures {
				return &dibs.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d, got %d", admin.MaxFailures, limit)}
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				return a.failures(cmd.Context(), db, queue, limit)
			})
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "only jobs of this `queue`, as the argument")
	cmd.Flags().IntVarP(&limit, "limit", "n", admin.MaxFailures, "how many dead jobs of a queue to read, at most, `1-10000`")
	return cmd
}

func (a *app) failures(ctx context.Context, db admin.Database, queue string, limit int) error {
	if err := cmdline.CheckQueue(ctx, db, queue); err != nil {
		return err
	}
	stats, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	if queue != "" {
		stats = slices.DeleteFunc(stats, func(q admin.QueueStats) bool { return q.Queue != queue })
	}
	sample, err := failures.Newest(ctx, db, stats, limit, failures.MostRead)
	if err != nil {
		return err
	}
	now := time.Now()
	groups := sample.Groups(failures.Spans{From: now.Add(-24 * time.Hour), Width: time.Hour, N: 24})
	if a.JSON {
		return term.WriteEach(&a.Terminal, groups, func(g *failures.Group) any { return g })
	}
	if len(groups) == 0 {
		fmt.Fprintln(a.Stdout, "no dead jobs")
		return nil
	}
	a.printGroups(groups, now)
	partly := sample.Partly()
	for _, name := range partly[:min(len(partly), mostPartly)] {
		r := sample.Queues[name]
		fmt.Fprintln(a.Stdout, a.Paint(term.Faint, fmt.Sprintf("read: the last %s of %s dead jobs of queue %s", words.Count(int64(r.Read)), words.Count(r.Dead), a.Cell(name, 40))))
	}
	if more := len(partly) - mostPartly; more > 0 {
		fmt.Fprintln(a.Stdout, a.Paint(term.Faint, "read: some of the dead jobs of "+words.Plural(more, "other queue")))
	}
	fmt.Fprintln(a.Stdout, a.Paint(term.Faint, "next: a command above lists its jobs; with 'requeue' in place of 'ls' it requeues them, with 'prune' it deletes them; --dry-run counts them"))
	return nil
}

// printGroups prints a line for each group and, beneath it, the last of its errors whole, where that says more, and the
// command that lists its jobs.
func (a *app) printGroups(groups []*failures.Group, now time.Time) {
	t := a.TableOf("#JOBS", "QUEUE", "KIND", "FIRST", "LAST", "ERROR")
	for _, g := range groups {
		jobs := words.Count(int64(g.Count))
		if g.Some() {
			jobs += "+"
		}
		t.AppendRow([]any{jobs, a.Cell(g.Queue, 20), a.Cell(g.Kind, 20), words.Since(now, g.First), words.Since(now, g.Last), a.Cell(g.Fingerprint, 80)})
	}
	for i, line := range t.List() {
		fmt.Fprintln(a.Stdout, line)
		if i == 0 { // the heading
			continue
		}
		g := groups[i-1]
		if whole := words.Printable(strings.TrimSpace(g.Example)); whole != words.Printable(g.Fingerprint) {
			fmt.Fprintln(a.Stdout, "    "+a.Paint(term.Faint, whole))
		}
		fmt.Fprintln(a.Stdout, "    "+a.Paint(term.Faint, listCommand(g)))
	}
}

// mostPartly is how many queues are named of which not all dead jobs were read.
const mostPartly = 10

// listCommand lists the jobs of a group. Its flags are those of requeue and prune, too.
func listCommand(g *failures.Group) string {
	text := "dibs ls -q " + words.ShellWord(g.Queue) + " -s dead -k " + words.ShellWord(g.Kind)
	if g.Part != "" {
		text += " --error " + words.ShellWord(g.Part)
	}
	return text
}
