package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/ticks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newScheduleCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Enqueue jobs at set times",
		Long: `Schedules enqueue a job at each of their ticks: at set times, as cron does, or at an
interval. Each tick makes exactly one job, however many processes are working and whenever
they crash. Every 'dibs work' looks after all schedules of its database.`,
		Example: `  dibs schedule add tidy --every 90s
  dibs schedule add report --cron '0 9 * * mon-fri' --zone Europe/Berlin --queue reports
  dibs schedule ls
  dibs schedule next report`,
		Args: cobra.NoArgs, // a misspelt command is an error
		RunE: cmdline.AsksForVerb,
	}
	for _, c := range []*cobra.Command{
		newScheduleAddCmd(a), newScheduleSetCmd(a), newScheduleLsCmd(a), newScheduleShowCmd(a), newScheduleNextCmd(a),
		newSchedulePauseCmd(a, true), newSchedulePauseCmd(a, false), newScheduleRunCmd(a), newScheduleRmCmd(a),
	} {
		c.Flags().SortFlags = false
		cmd.AddCommand(c)
	}
	return cmd
}

func newScheduleAddCmd(a *app) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "add NAME (--every DURATION | --cron SPEC) [flags]",
		Short: "Make a schedule",
		Long: `Make a schedule, and show it with its next ticks. The queue, unless given, is the schedule's
name, and the kind is the queue's name.

--cron takes five fields: minute, hour, day of month, month, day of week; or six with the
second first; or @hourly, @daily, @weekly, @monthly, @yearly. Fields have lists (1,15), ranges
(mon-fri), steps (*/10), and L, 15W, fri#2 and fri#L for days. A job at a time of day runs once
a day where the clocks change: at the change if its time is left out, and only the first time
if it comes twice. An interval is counted from --start, or from now.`,
		Example: `  dibs schedule add tidy --every 90s
  dibs schedule add report --cron '0 9 * * mon-fri' --zone Europe/Berlin --queue reports
  dibs schedule add invoices --cron '0 4 L * *' --payload '{"month":"last"}' --missed all`,
		Args: cmdline.Asking("schedule", "tidy --every 90s", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := dibs.Schedule{Name: args[0], Queue: args[0]}
			if err := f.apply(cmd, &s); err != nil {
				return err
			}
			if s.Kind == "" {
				s.Kind = s.Queue
			}
			if s.Spec == "" {
				return cmdline.Usagef(cmd, "when? give --every or --cron")
			}
			return a.WithDatabase(cmd.Context(), func(db admin.Database) error {
				old, err := db.Schedules(cmd.Context(), s.Name)
				if err != nil {
					return err
				}
				if len(old) > 0 {
					return &cmdline.HintError{Err: &dibs.InvalidError{Field: "name", Reason: fmt.Sprintf("schedule %q exists already", s.Name)}, Next: "'dibs schedule set' changes it"}
				}
				if s, err = db.SetSchedule(cmd.Context(), s); err != nil {
					return f.typed(cmd, err)
				}
				a.Noted(cmd.Context(), db, "set", 1, cmdline.WithFlags(cmd, "schedule "+s.Name))
				return a.showChanged(cmd.Context(), db, s)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.paused, "paused", false, "make it paused")
	return cmd
}

// showChanged shows a schedule that was made or changed, and warns if it will make no job.
func (a *app) showChanged(ctx context.Context, db admin.Database, s dibs.Schedule) error {
	if s.Next.IsZero() && !s.Paused {
		fmt.Fprintf(a.Stderr, "dibs: schedule %s has no more ticks: its end is before the next one\n", words.Printable(s.Name))
	}
	return a.showSchedule(ctx, db, s)
}

func newScheduleSetCmd(a *app) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "set NAME [flags]",
		Short: "Change a schedule",
		Example: `  dibs schedule set report --cron '30 8 * * mon-fri'
  dibs schedule set report --end 2027-01-01
  dibs schedule set report --end ''          no end any more`,
		Args: cmdline.Asking("schedule", "report --every 2m", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.apply(cmd, &dibs.Schedule{}); err != nil {
				return err
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				s, err := db.ChangeSchedule(cmd.Context(), args[0], func(s *dibs.Schedule) error { return f.apply(cmd, s) })
				if err != nil {
					return f.typed(cmd, scheduleError("set", err))
				}
				a.Noted(cmd.Context(), db, "change", 1, cmdline.WithFlags(cmd, "schedule "+s.Name))
				return a.showChanged(cmd.Context(), db, s)
			})
		},
		ValidArgsFunction: a.completeSchedule,
	}
	f.add(cmd)
	return cmd
}

// scheduleError says what failed, and what to do about a schedule that does not exist.
func scheduleError(verb string, err error) error {
	if errors.Is(err, dibs.ErrInvalid) { // it names a field
		return err
	}
	err = checks.Failed(verb+" schedule", err)
	if errors.Is(err, dibs.ErrUnknownSchedule) {
		return &cmdline.HintError{Err: err, Next: "'dibs schedule ls' lists them"}
	}
	return err
}

// withSchedule runs f with an existing schedule.
func (a *app) withSchedule(ctx context.Context, verb, name string, f func(admin.Database, dibs.Schedule) error) error {
	return a.WithExistingDatabase(ctx, func(db admin.Database) error {
		found, err := db.Schedules(ctx, name)
		if err != nil && !errors.Is(err, dibs.ErrInvalid) { // no schedule has a name that is refused
			return err
		}
		if len(found) == 0 {
			return scheduleError(verb, fmt.Errorf("%w %.255q", dibs.ErrUnknownSchedule, name))
		}
		return f(db, found[0])
	})
}

func newScheduleLsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the schedules",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				list, err := db.Schedules(cmd.Context())
				if err != nil {
					return err
				}
				return a.listSchedules(list)
			})
		},
	}
}

func newScheduleShowCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule and its next ticks",
		Args:  cmdline.Asking("schedule", "report", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSchedule(cmd.Context(), "show", args[0], func(db admin.Database, s dibs.Schedule) error {
				return a.showSchedule(cmd.Context(), db, s)
			})
		},
		ValidArgsFunction: a.completeSchedule,
	}
}

func newScheduleNextCmd(a *app) *cobra.Command {
	n := 5
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "next [NAME] [flags]",
		Short: "List the next ticks of a schedule, or of a spec",
		Long: `List the next ticks of a schedule from now on, or of a spec. With a name and flags, list those
that it would have with these: nothing is changed. A tick that should have had its job comes first,
marked as late (--json: late). A spec alone needs no database.`,
		Example: `  dibs schedule next report -n 10
  dibs schedule next report --start 2027-01-01
  dibs schedule next --cron '0 9 * * mon-fri' --zone Europe/Berlin`,
		Args: cmdline.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := func(in timetable, s dibs.Schedule) error {
				set := s
				if err := f.apply(cmd, &s); err != nil {
					return err
				}
				next, err := in.NextTicks(cmd.Context(), s, n)
				if err != nil {
					return f.typed(cmd, err)
				}
				sameTicks := s.Spec == set.Spec && s.Zone == set.Zone && s.Start.Equal(set.Start) && s.End.Equal(set.End)
				if sameTicks && holdups.Late(s, time.Now()) && len(next) > 0 {
					next = append([]time.Time{s.Next}, next[:len(next)-1]...)
				}
				return a.listTicks(s, next)
			}
			if len(args) > 0 {
				err := a.withSchedule(cmd.Context(), "next ticks of", args[0], func(db admin.Database, s dibs.Schedule) error { return list(db, s) })
				if errors.Is(err, dibs.ErrUnknownSchedule) && strings.ContainsAny(args[0], " @*") {
					return &cmdline.HintError{Err: err, Next: "or is that a spec? dibs schedule next --cron " + words.ShellWord(args[0])}
				}
				return err
			}
			if f.cron == "" && f.every == 0 {
				return cmdline.Usagef(cmd, "of what? name a schedule, or give --cron or --every")
			}
			return list(nowhere{}, dibs.Schedule{})
		},
		ValidArgsFunction: a.completeSchedule,
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many")
	f.addSpec(cmd)
	return cmd
}

// timetable lists the next ticks of a schedule.
type timetable interface {
	NextTicks(ctx context.Context, s dibs.Schedule, n int) ([]time.Time, error)
}

// nowhere lists ticks by this machine's clock, without a database.
type nowhere struct{}

func (nowhere) NextTicks(_ context.Context, s dibs.Schedule, n int) ([]time.Time, error) {
	return ticks.NextTicks(&s, n, time.Now())
}

func newSchedulePauseCmd(a *app, pause bool) *cobra.Command {
	verb := "resume"
	if pause {
		verb = "pause"
	}
	cmd := &cobra.Command{
		Use:   "pause NAME...",
		Short: "Pause schedules; ticks that pass meanwhile are left out",
		Args:  cmdline.Asking("schedule", "report", 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				if err := a.knowsAll(cmd.Context(), db, verb, args); err != nil {
					return err
				}
				for _, name := range args {
					s, err := db.ChangeSchedule(cmd.Context(), name, func(s *dibs.Schedule) error {
						s.Paused = pause
						return nil
					})
					if err != nil {
						return scheduleError(verb, err)
					}
					a.Noted(cmd.Context(), db, verb, 1, "schedule "+name)
					switch {
					case a.JSON:
						a.Tell(wire.ScheduleOf(s))
					case pause:
						a.Say("paused %s", words.Printable(name))
					default:
						a.Say("resumed %s; next tick %s", words.Printable(name), a.tickText(s, s.Next))
					}
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSchedule,
	}
	if !pause {
		cmd.Use, cmd.Short = "resume NAME...", "Resume paused schedules"
	}
	return cmd
}

func newScheduleRunCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "run NAME",
		Short: "Enqueue a schedule's job now, besides its ticks",
		Args:  cmdline.Asking("schedule", "report", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				e, err := db.RunSchedule(cmd.Context(), args[0])
				if err != nil {
					return scheduleError("run", err)
				}
				a.Noted(cmd.Context(), db, "run now", 1, "schedule "+args[0])
				a.Done(e, "enqueued job %d", e.ID)
				return nil
			})
		},
		ValidArgsFunction: a.completeSchedule,
	}
}

func newScheduleRmCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete schedules; their jobs stay",
		Args:  cmdline.Asking("schedule", "report", 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				if err := a.knowsAll(cmd.Context(), db, "delete", args); err != nil {
					return err
				}
				for _, name := range args {
					if err := db.DeleteSchedule(cmd.Context(), name); err != nil {
						return scheduleError("delete", err)
					}
					a.Noted(cmd.Context(), db, "delete", 1, "schedule "+name)
					a.Done(map[string]string{"deleted": name}, "deleted schedule %s", words.Printable(name))
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeSchedule,
	}
}

// knowsAll refuses a list of names of which one is wrong, before anything is changed.
func (a *app) knowsAll(ctx context.Context, db admin.Database, verb string, names []string) error {
	list, err := db.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(s dibs.Schedule) bool { return s.Name == name }) {
			return scheduleError(verb, fmt.Errorf("%w %.255q", dibs.ErrUnknownSchedule, name))
		}
	}
	return nil
}

// completeSchedule offers the names of schedules to the shell.
func (a *app) completeSchedule(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return cmdline.Offer(cmd, func(ctx context.Context) (names []string, err error) {
		err = a.WithExistingDatabase(ctx, func(db admin.Database) error {
			list, err := db.Schedules(ctx)
			for _, s := range list {
				names = append(names, s.Name)
			}
			return err
		})
		return names, err
	})
}
