package queues

import (
	"context"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// change is the change that the flags of 'dibs queue' ask for.
type change struct {
	dibs.QueueChange
	create  bool
	groups  []groupLimit
	backoff []func(*dibs.Backoff) // changes of single parts of the backoff
	rate    ratePart              // the rate of the queue, or of the groups that are named
	each    ratePart              // the rate of groups that have none of their own

	target   dibs.Queue // receives the values of the flags
	groupArg []string
}

type groupLimit struct {
	name  string
	limit *int // nil: unchanged
}

// ratePart is what the flags say of a rate. What they leave out stays.
type ratePart struct {
	rate     *dibs.Rate // without its burst
	burst    *int
	rateArg  cmdline.RateFlag
	burstArg int
}

func (p *ratePart) read(f *pflag.FlagSet, rate, burst string) {
	p.rate = named(f.Changed(rate), (*dibs.Rate)(&p.rateArg))
	p.burst = named(f.Changed(burst), &p.burstArg)
}

func (p *ratePart) given() bool { return p.rate != nil || p.burst != nil }

// change is what the flags make of an old rate.
func (p *ratePart) change(old dibs.Rate) dibs.Rate {
	if p.rate != nil {
		if old.N, old.Per = p.rate.N, p.rate.Per; old.N == 0 {
			old.Burst = 0
		}
	}
	if p.burst != nil {
		old.Burst = *p.burst
	}
	return old
}

func (c *change) addFlags(cmd *cobra.Command) {
	f, q := cmd.Flags(), &c.target
	*q = dibs.DefaultSettings("")
	f.BoolVar(&c.create, "create", false, "make the queue if it is new")
	f.IntVar(&q.Concurrency, "concurrency", q.Concurrency, "jobs running at once over all workers; 0: no limit")
	f.IntVar(&q.GroupLimit, "group-limit", q.GroupLimit, "jobs of one group running at once")
	f.Var(&c.rate.rateArg, "rate", "most starts over all workers, as 100/min or 10/90s; 0: no limit")
	f.IntVar(&c.rate.burstArg, "burst", 0, "how many starts more may have been saved up")
	f.Var(&c.each.rateArg, "group-rate", "the rate of each group that has none of its own; 0: no limit")
	f.IntVar(&c.each.burstArg, "group-burst", 0, "how many starts more each group may have saved up")
	f.StringArrayVar(&c.groupArg, "group", nil, "`GROUP[=LIMIT]`: its own limit, 0 takes it away, and its own --rate")
	f.BoolVar(&q.Strict, "strict", q.Strict, "a job that waits for its retry holds its place in its group")
	f.StringVar((*string)(&q.Order), "order", string(q.Order), "of claims: fifo or lifo")
	f.Var((*cmdline.DurationFlag)(&q.Lease), "lease", "how long a claim lasts unless extended")
	f.Var((*cmdline.DurationFlag)(&q.JobTimeout), "job-timeout", "how long an attempt may run, also one that runs now; then\nit has failed, which counts; 0s: no limit")
	f.IntVar(&q.MaxAttempts, "max-attempts", q.MaxAttempts, "number of attempts after which a job is dead")
	f.Var((*cmdline.DurationFlag)(&q.Backoff.Base), "backoff", "delay before the first retry")
	f.Float64Var(&q.Backoff.Factor, "backoff-factor", q.Backoff.Factor, "how much longer each delay is than the one before")
	f.Var((*cmdline.DurationFlag)(&q.Backoff.Max), "backoff-max", "the longest delay")
	f.Float64Var(&q.Backoff.Jitter, "backoff-jitter", q.Backoff.Jitter, "by which part, 0 to 1, delays vary")
	f.Var((*cmdline.DurationFlag)(&q.KeepCompleted), "keep-completed", "how long completed jobs stay readable; 0s: not at all")
	f.Var((*cmdline.DurationFlag)(&q.KeepDead), "keep-dead", "the same for dead jobs")
	f.Var((*cmdline.DurationFlag)(&q.KeepCancelled), "keep-cancelled", "the same for cancelled jobs")
	f.IntVar(&q.PayloadLimit, "payload-limit", q.PayloadLimit, "bytes that a payload may have")
}

// read records which settings were named.
func (c *change) read(cmd *cobra.Command) error {
	f, q := cmd.Flags(), &c.target
	c.Concurrency = named(f.Changed("concurrency"), &q.Concurrency)
	c.GroupLimit = named(f.Changed("group-limit"), &q.GroupLimit)
	c.Strict = named(f.Changed("strict"), &q.Strict)
	c.Order = named(f.Changed("order"), &q.Order)
	c.Lease = named(f.Changed("lease"), &q.Lease)
	c.JobTimeout = named(f.Changed("job-timeout"), &q.JobTimeout)
	c.MaxAttempts = named(f.Changed("max-attempts"), &q.MaxAttempts)
	c.KeepCompleted = named(f.Changed("keep-completed"), &q.KeepCompleted)
	c.KeepDead = named(f.Changed("keep-dead"), &q.KeepDead)
	c.KeepCancelled = named(f.Changed("keep-cancelled"), &q.KeepCancelled)
	c.PayloadLimit = named(f.Changed("payload-limit"), &q.PayloadLimit)
	for flag, set := range map[string]func(*dibs.Backoff){
		"backoff":        func(b *dibs.Backoff) { b.Base = q.Backoff.Base },
		"backoff-factor": func(b *dibs.Backoff) { b.Factor = q.Backoff.Factor },
		"backoff-max":    func(b *dibs.Backoff) { b.Max = q.Backoff.Max },
		"backoff-jitter": func(b *dibs.Backoff) { b.Jitter = q.Backoff.Jitter },
	} {
		if f.Changed(flag) {
			c.backoff = append(c.backoff, set)
		}
	}
	c.rate.read(f, "rate", "burst")
	c.each.read(f, "group-rate", "group-burst")
	for _, arg := range c.groupArg {
		i := strings.LastIndexByte(arg, '=')
		n, err := strconv.Atoi(arg[i+1:])
		switch {
		case i >= 1 && err == nil:
			c.groups = append(c.groups, groupLimit{arg[:i], &n})
		case i < 0 && arg != "" && c.rate.given():
			c.groups = append(c.groups, groupLimit{arg, nil})
		default:
			return cmdline.Usagef(cmd, "--group %.60q must be GROUP=LIMIT, such as customer-7=3, or GROUP with --rate", arg)
		}
	}
	return nil
}

func named[T any](given bool, v *T) *T {
	if !given {
		return nil
	}
	return v
}

// requested reports whether the flags ask for any change.
func (c *change) requested() bool {
	return c.create || c.QueueChange != dibs.QueueChange{} || len(c.backoff) > 0 || len(c.groups) > 0 || c.rate.given() || c.each.given()
}

// apply changes the queue q and returns its new settings.
func (c *change) apply(ctx context.Context, db dibs.Database, q dibs.Queue) (dibs.Queue, error) {
	err := c.checkGroups(ctx, db, q.Name)
	if err != nil {
		return q, err
	}
	q, err = db.ChangeQueue(ctx, q.Name, func(q *dibs.Queue) error {
		for _, set := range c.backoff {
			set(&q.Backoff)
		}
		if len(c.groups) == 0 {
			q.Rate = c.rate.change(q.Rate)
		}
		q.GroupRate = c.each.change(q.GroupRate)
		return checks.Changer(c.QueueChange)(q)
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
		g.Rate = c.rate.change(g.Rate)
		return nil
	}
}

// checkGroups checks the changes of all groups before any of them is made.
func (c *change) checkGroups(ctx context.Context, db dibs.Database, queue string) error {
	if len(c.groups) == 0 {
		return nil
	}
	list, err := db.Groups(ctx, queue)
	if err != nil {
		return err
	}
	for _, g := range c.groups {
		if _, err := checks.ChangedGroup(queue, checks.GroupOf(list, g.name), c.changeGroup(g)); err != nil {
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
		return a.WithExistingDatabase(ctx, func(db dibs.Database) error {
			for _, name := range names {
				if _, err := find(ctx, db, name, &change{}); err != nil {
					return err
				}
			}
			for _, name := range names {
				q, err := db.SetQueue(ctx, name, dibs.QueueChange{Paused: &paused})
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
