package queues

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// change is the change that the flags of 'dibs queue' ask for.
type change struct {
	create   bool
	flags    []*settingFlag
	given    []*settingFlag // those of the flags that the command line has
	groups   []groupLimit
	groupArg []string
}

type groupLimit struct {
	name  string
	limit *int // nil: unchanged
}

// settingFlag is the value of the flag of a setting.
type settingFlag struct {
	wire.Setting
	text string // as it was given, or the default; empty: a default of 0
}

func (f *settingFlag) String() string { return f.text }

func (f *settingFlag) Set(text string) error {
	var invalid *dibs.InvalidError
	if err := f.Setting.Set(new(dibs.Queue), text); errors.As(err, &invalid) {
		return errors.New(invalid.Reason)
	}
	f.text = text
	return nil
}

// ofRate reports whether the setting is a part of the queue's rate, or of the rate of a group that is named.
func (f *settingFlag) ofRate() bool { return f.Name == "rate" || f.Name == "burst" }

func (c *change) addFlags(cmd *cobra.Command) {
	f, defaults := cmd.Flags(), dibs.DefaultSettings("")
	f.BoolVar(&c.create, "create", false, "make the queue if it is new")
	f.StringArrayVar(&c.groupArg, "group", nil, "`GROUP[=LIMIT]`: its own limit, 0 takes it away, and its own --rate")
	for _, s := range wire.QueueSettings {
		flag := &settingFlag{Setting: s, text: s.Text(defaults)}
		if slices.Contains([]string{"0", "0s", "no"}, flag.text) {
			flag.text = ""
		}
		c.flags = append(c.flags, flag)
		help := s.Help
		if len(help) > 70 { // the next line is for what its values mean
			help = strings.Replace(help, "; ", ";\n", 1)
		}
		if added := f.VarPF(flag, s.Flag, "", help); s.Type() == "bool" {
			added.NoOptDefVal = "true"
		}
	}
}

// read records which settings were named.
func (c *change) read(cmd *cobra.Command) error {
	for _, flag := range c.flags {
		if cmd.Flags().Changed(flag.Flag) {
			c.given = append(c.given, flag)
		}
	}
	for _, arg := range c.groupArg {
		i := strings.LastIndexByte(arg, '=')
		n, err := strconv.Atoi(arg[i+1:])
		switch {
		case i >= 1 && err == nil:
			c.groups = append(c.groups, groupLimit{arg[:i], &n})
		case i < 0 && arg != "" && slices.ContainsFunc(c.given, (*settingFlag).ofRate):
			c.groups = append(c.groups, groupLimit{arg, nil})
		default:
			return cmdline.Usagef(cmd, "--group %.60q must be GROUP=LIMIT, such as customer-7=3, or GROUP with --rate", arg)
		}
	}
	return nil
}

// requested reports whether the flags ask for any change.
func (c *change) requested() bool { return c.create || len(c.given) > 0 || len(c.groups) > 0 }

// apply changes the queue q and returns its new settings.
func (c *change) apply(ctx context.Context, db admin.Database, q dibs.Queue) (dibs.Queue, error) {
	err := c.checkGroups(ctx, db, q.Name)
	if err != nil {
		return q, err
	}
	q, err = db.ChangeQueue(ctx, q.Name, func(q *dibs.Queue) error {
		return c.set(q, func(f *settingFlag) bool { return len(c.groups) == 0 || !f.ofRate() })
	})
	if err != nil {
		return q, err
	}
	for _, g := range c.groups {
		if err := db.ChangeGroup(ctx, q.Name, g.name, c.changeGroup(g)); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (c *change) changeGroup(to groupLimit) func(*dibs.Group) error {
	return func(g *dibs.Group) error {
		if to.limit != nil {
			g.Limit = *to.limit
		}
		settings := dibs.Queue{Rate: g.Rate}
		err := c.set(&settings, (*settingFlag).ofRate)
		g.Rate = settings.Rate
		return err
	}
}

// set changes those of the settings that the command line has and that are wanted.
func (c *change) set(q *dibs.Queue, wanted func(*settingFlag) bool) error {
	for _, f := range c.given {
		if wanted(f) {
			if err := f.Setting.Set(q, f.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkGroups checks the changes of all groups before any of them is made.
func (c *change) checkGroups(ctx context.Context, db admin.Database, queue string) error {
	if len(c.groups) == 0 {
		return nil
	}
	list, err := db.Groups(ctx, queue)
	if err != nil {
		return err
	}
	for _, g := range c.groups {
		if _, err := checks.ChangedGroup(checks.GroupOf(list, g.name), c.changeGroup(g)); err != nil {
			return err
		}
	}
	return nil
}

func newPauseCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "pause QUEUE...",
		Short: "Stop claims from queues",
		Long: `Stop claims from queues, by all workers at once. What runs goes on and can be
finished, and new jobs can be enqueued.`,
		Args:              cmdline.Asking("queue", "emails", 0),
		RunE:              a.setPaused(true, "paused"),
		ValidArgsFunction: a.CompleteQueues,
	}
}

func newResumeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "resume QUEUE...",
		Short:             "Let paused queues go on",
		Args:              cmdline.Asking("queue", "emails", 0),
		RunE:              a.setPaused(false, "resumed"),
		ValidArgsFunction: a.CompleteQueues,
	}
}

// setPaused changes all named queues or, if one of them is unknown, none.
func (a *app) setPaused(paused bool, done string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, names []string) error {
		ctx := cmd.Context()
		return a.WithExistingDatabase(ctx, func(db admin.Database) error {
			for _, name := range names {
				if _, err := find(ctx, db, name, &change{}); err != nil {
					return err
				}
			}
			for _, name := range names {
				q, err := db.ChangeQueue(ctx, name, dibs.QueueChange{Paused: &paused}.Apply)
				if err != nil {
					return err
				}
				a.Noted(ctx, db, cmd.Name(), 1, "queue "+name)
				a.Done(wire.QueueOf(q), "%s %s", done, words.Printable(name))
			}
			return nil
		})
	}
}
