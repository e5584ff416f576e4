package queues

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
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
			err := cmdline.AtMost(1)(cmd, args)
			if err != nil && slices.Contains([]string{"add", "create", "make", "new"}, args[0]) {
				return fmt.Errorf("a queue is made by its first job, or by: %s %s --create", cmd.CommandPath(), words.ShellWord(args[1]))
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.read(cmd); err != nil {
				return err
			}
			if len(args) == 0 {
				if c.requested() {
					return cmdline.Usagef(cmd, "which queue is to be changed? name it")
				}
				return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
					return a.showQueues(cmd.Context(), db)
				})
			}
			with := a.WithExistingDatabase
			if c.create {
				with = a.WithDatabase
			}
			return with(cmd.Context(), func(db admin.Database) error {
				return a.queue(cmd, db, args[0], &c)
			})
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	c.addFlags(cmd)
	rm := newQueueRmCmd(a)
	rm.Flags().SortFlags = false
	cmd.AddCommand(rm)
	return cmd
}

func (a *app) showQueues(ctx context.Context, db admin.Database) error {
	queues, err := db.Queues(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return term.WriteEach(&a.Terminal, queues, func(q dibs.Queue) any { return wire.QueueOf(q) })
	}
	if len(queues) == 0 {
		fmt.Fprintln(a.Stdout, "no queues yet; 'dibs enqueue' makes them")
		return nil
	}
	t := a.TableOf("QUEUE", "PAUSED", "#CONCURRENCY", "#RATE", "#GROUP LIMIT", "ORDER", "#LEASE", "#ATTEMPTS", "BACKOFF", "KEEP")
	for _, q := range queues {
		t.AppendRow([]any{
			a.Cell(q.Name, 20),
			a.Yes(q.Paused),
			cmdline.Limit(q.Concurrency),
			cmdline.RateText(q.Rate),
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
func (a *app) queue(cmd *cobra.Command, db admin.Database, name string, c *change) error {
	ctx := cmd.Context()
	q, err := find(ctx, db, name, c)
	if err != nil {
		return err
	}
	if c.requested() {
		if q, err = c.apply(ctx, db, q); err != nil {
			return err
		}
		a.Noted(ctx, db, "change", 1, cmdline.WithFlags(cmd, "queue "+q.Name))
	}
	groups, err := db.Groups(ctx, q.Name)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.WriteJSON(struct {
			wire.Queue
			Groups []wire.Group `json:"groups,omitempty"` // the groups with settings of their own
		}{wire.QueueOf(q), wire.GroupsOf(groups)})
	}
	a.writeQueue(q)
	a.writeGroups(q, groups)
	return nil
}

// find returns the queue, or with --create a new one with default settings.
func find(ctx context.Context, db admin.Database, name string, c *change) (dibs.Queue, error) {
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
	names, err := cmdline.QueueNames(ctx, db)
	if err != nil {
		return dibs.Queue{}, err
	}
	unknown := cmdline.UnknownQueue(name, names)
	if c.requested() {
		unknown.Next += "; --create makes this one"
	}
	return dibs.Queue{}, unknown
}

func (a *app) writeQueue(q dibs.Queue) {
	title := a.Paint(term.Bold, words.Printable(q.Name))
	if q.Paused {
		title += a.Paint(term.Yellow, "  paused")
	}
	entries := make([]term.Entry, len(wire.QueueSettings))
	for i, setting := range wire.QueueSettings {
		entries[i] = term.Entry{Name: setting.Flag, Value: setting.Shown(q), Meaning: setting.Means()}
	}
	a.Block(title, entries)
}

// maxGroupLines is how many groups with settings of their own, or held by the queue's rate, are shown.
const maxGroupLines = 20

func (a *app) writeGroups(q dibs.Queue, groups []dibs.Group) {
	if len(groups) == 0 {
		return
	}
	t := a.TableOf("GROUP", "#LIMIT", "#RATE", "NOW")
	for _, g := range groups[:min(len(groups), maxGroupLines)] {
		own, rate := "the queue's", cmdline.RateText(g.Rate)
		if g.Limit > 0 {
			own = strconv.Itoa(g.Limit)
		}
		if g.Rate.N == 0 && q.GroupRate.N > 0 {
			rate = "the queue's"
		}
		t.AppendRow([]any{a.Cell(g.Name, 40), own, rate, a.Paint(term.Yellow, holdups.Held(g.HeldUntil))})
	}
	t.Render()
	if more := len(groups) - maxGroupLines; more > 0 {
		a.Say("%s more; --json shows all", words.Plural(more, "group"))
	}
}

func order(q dibs.Queue) string {
	if q.Strict {
		return string(q.Order) + ", strict"
	}
	return string(q.Order)
}
