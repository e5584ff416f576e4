package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func newQueueCmd(a *app) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:   "queue [QUEUE] [flags]",
		Short: "Show or change the settings of queues",
		Long: `Without flags, show the settings of all queues or of one. With flags, change those
settings and show the result. They are stored in the database: every process follows
a change at once. In the table, BACKOFF is the first and the longest delay, and KEEP how
long completed, dead and cancelled jobs stay readable.

A queue is made by its first job. To set one before that, add --create; 'dibs queue rm' deletes
one that is no longer needed.`,
		Example: `  dibs queue
  dibs queue emails --concurrency 20 --max-attempts 5 --keep-completed 1h
  dibs queue billing --create --concurrency 1          one job at a time, in order
  dibs queue emails --rate 100/min --burst 10          at most 110 starts in any minute
  dibs queue emails --group customer-7=3               a limit of its own for one group
  dibs queue emails --group customer-7 --rate 5/s      a rate of its own for one group`,
		Args: func(cmd *cobra.Command, args []string) error {
			err := atMost(1)(cmd, args)
			if err != nil && slices.Contains([]string{"add", "create", "make", "new"}, args[0]) {
				return fmt.Errorf("a queue is made by its first job, or by: %s %s --create", cmd.CommandPath(), shellWord(args[1]))
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.read(cmd); err != nil {
				return err
			}
			if len(args) == 0 {
				if c.requested() {
					return usagef(cmd, "which queue is to be changed? name it")
				}
				return a.withExistingDatabase(cmd.Context(), func(db dibs.Database) error {
					return a.showQueues(cmd.Context(), db)
				})
			}
			with := a.withExistingDatabase
			if c.create {
				with = a.withDatabase
			}
			return with(cmd.Context(), func(db dibs.Database) error {
				return a.queue(cmd, db, args[0], &c)
			})
		},
		ValidArgsFunction: a.completeQueue,
	}
	c.addFlags(cmd)
	rm := newQueueRmCmd(a)
	rm.Flags().SortFlags = false
	cmd.AddCommand(rm)
	return cmd
}

func (a *app) showQueues(ctx context.Context, db dibs.Database) error {
	queues, err := db.Queues(ctx)
	if err != nil {
		return err
	}
	if a.json {
		for _, q := range queues {
			if err := a.writeJSON(wire.QueueOf(q)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(queues) == 0 {
		fmt.Fprintln(a.stdout, "no queues yet; 'dibs enqueue' makes them")
		return nil
	}
	t := a.tableOf("QUEUE", "PAUSED", "#CONCURRENCY", "#RATE", "#GROUP LIMIT", "ORDER", "#LEASE", "#ATTEMPTS", "BACKOFF", "KEEP")
	for _, q := range queues {
		t.AppendRow(table.Row{
			a.cell(q.Name, 20),
			a.yes(q.Paused),
			limit(q.Concurrency),
			rateText(q.Rate),
			q.GroupLimit,
			order(q),
			wire.FormatDuration(q.Lease),
			q.MaxAttempts,
			wire.FormatDuration(q.Backoff.Base) + "-" + wire.FormatDuration(q.Backoff.Max),
			wire.FormatDuration(q.KeepCompleted) + "/" + wire.FormatDuration(q.KeepDead) + "/" + wire.FormatDuration(q.KeepCancelled),
		})
	}
	t.Render()
	return nil
}

// queue changes a queue if the flags ask for it, and shows it.
func (a *app) queue(cmd *cobra.Command, db dibs.Database, name string, c *change) error {
	ctx := cmd.Context()
	q, err := find(ctx, db, name, c)
	if err != nil {
		return err
	}
	if c.requested() {
		if q, err = c.apply(ctx, db, q); err != nil {
			return err
		}
		a.noted(ctx, db, "change", 1, withFlags(cmd, "queue "+q.Name))
	}
	groups, err := db.Groups(ctx, q.Name)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(struct {
			wire.Queue
			Groups []wire.Group `json:"groups,omitempty"` // those with settings of their own
		}{wire.QueueOf(q), wire.GroupsOf(groups)})
	}
	a.writeQueue(q)
	a.writeGroups(q, groups)
	return nil
}

// find returns the queue, or with --create a new one with default settings.
func find(ctx context.Context, db dibs.Database, name string, c *change) (dibs.Queue, error) {
	queues, err := db.Queues(ctx, name)
	if err != nil {
		return dibs.Queue{}, err
	}
	if len(queues) > 0 {
		return queues[0], nil
	}
	if c.create {
		return dibs.DefaultSettings(name), nil
	}
	names, err := queueNames(ctx, db)
	if err != nil {
		return dibs.Queue{}, err
	}
	unknown := unknownQueue(name, names)
	if c.requested() {
		unknown.next += "; --create makes this one"
	}
	return dibs.Queue{}, unknown
}

func (a *app) writeQueue(q dibs.Queue) {
	rate, each := rateText(q.Rate), rateText(q.GroupRate)
	wide := max(12, len(rate), len(each))
	line := func(name, value, meaning string) {
		text := fmt.Sprintf("  %-14s  %-*s  %s", name, wide, value, a.paint(faint, meaning))
		a.say("%s", strings.TrimRight(text, " "))
	}
	title := a.paint(bold, printable(q.Name))
	if q.Paused {
		title += a.paint(yellow, "  paused")
	}
	fmt.Fprintln(a.stdout, title)
	line("concurrency", limit(q.Concurrency), "jobs running at once over all workers")
	line("rate", rate, "of starts over all workers")
	line("group-limit", strconv.Itoa(q.GroupLimit), "jobs of one group running at once")
	line("group-rate", each, "of starts of each group")
	line("strict", strconv.FormatBool(q.Strict), "a job that waits for its retry holds its place in its group")
	line("order", string(q.Order), "")
	line("lease", wire.FormatDuration(q.Lease), "")
	line("job-timeout", timeoutText(q.JobTimeout), "how long an attempt may run")
	line("max-attempts", strconv.Itoa(q.MaxAttempts), "")
	b := q.Backoff
	line("backoff", wire.FormatDuration(b.Base), fmt.Sprintf("times %g after each attempt, up to %s, give or take %g %%", b.Factor, wire.FormatDuration(b.Max), 100*b.Jitter))
	line("keep-completed", wire.FormatDuration(q.KeepCompleted), "")
	line("keep-dead", wire.FormatDuration(q.KeepDead), "")
	line("keep-cancelled", wire.FormatDuration(q.KeepCancelled), "")
	line("payload-limit", count(int64(q.PayloadLimit)), "bytes")
}

// maxGroupLines is how many groups with settings of their own, or held by the queue's rate, are shown.
const maxGroupLines = 20

func (a *app) writeGroups(q dibs.Queue, groups []dibs.Group) {
	if len(groups) == 0 {
		return
	}
	t := a.tableOf("GROUP", "#LIMIT", "#RATE", "NOW")
	for _, g := range groups[:min(len(groups), maxGroupLines)] {
		own, rate := "the queue's", rateText(g.Rate)
		if g.Limit > 0 {
			own = strconv.Itoa(g.Limit)
		}
		if g.Rate.N == 0 && q.GroupRate.N > 0 {
			rate = "the queue's"
		}
		t.AppendRow(table.Row{a.cell(g.Name, 40), own, rate, a.paint(yellow, heldText(g.HeldUntil))})
	}
	t.Render()
	if more := len(groups) - maxGroupLines; more > 0 {
		a.say("%s more; --json shows all", plural(more, "group"))
	}
}

func (a *app) yes(b bool) string {
	if b {
		return a.paint(yellow, "yes")
	}
	return "no"
}

func limit(n int) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}

func timeoutText(d time.Duration) string {
	if d == 0 {
		return "no limit"
	}
	return wire.FormatDuration(d)
}

func order(q dibs.Queue) string {
	if q.Strict {
		return string(q.Order) + ", strict"
	}
	return string(q.Order)
}
