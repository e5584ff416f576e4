// Package top shows queues and jobs live.
package top

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newTopCmd(a *app) *cobra.Command {
	var once bool
	interval := cmdline.DurationFlag(time.Second)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Look at the queues live",
		Long: `Look at the queues live: what waits, what runs and where, and what is dead. The
columns are those of 'dibs stats'. Watching takes no locks and slows nobody down.

  tab            queues, running jobs, dead jobs
  up, down       select; enter looks at the job, or lists one queue's jobs only
  p              pause or resume the selected queue, after asking
  r              requeue the selected dead job
  esc            back; q  quit

Without a terminal, or with --once, it prints one snapshot and exits: all queues, up to 20 running
and 5 dead jobs, and the commands that list all; with --json up to 200 of each.

With --table it shows what 'dibs stats' can tell of that table, and its running rows; p and
r do nothing there.`,
		Example: `  dibs top --interval 5s
  dibs top --once --json | jq '.queues[] | {queue, waiting}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			every := time.Duration(interval)
			if every < 100*time.Millisecond || every > time.Hour {
				return cmdline.Usagef(cmd, "--interval must be 100ms to 1h, got %s", wire.FormatDuration(every))
			}
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				if once || a.JSON || !a.OutTTY {
					return a.topOnce(cmd.Context(), db)
				}
				return a.top(cmd.Context(), db, every)
			})
		},
	}
	cmd.Flags().Var(&interval, "interval", "`time` between two updates, 100ms to 1h")
	cmd.Flags().BoolVar(&once, "once", false, "print one snapshot and exit")
	return cmd
}

// top shows the live view until the user leaves it.
func (a *app) top(ctx context.Context, db cmdline.JobTable, every time.Duration, o ...tea.ProgramOption) error {
	m := &topModel{ctx: ctx, db: db, interval: every, topView: topView{app: a, title: a.URL().String()}}
	o = append(o, tea.WithContext(ctx), tea.WithOutput(a.Screen), tea.WithoutSignalHandler())
	_, err := tea.NewProgram(m, o...).Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

type JSON struct {
	Queues      []any          `json:"queues"`
	Running     []*dibs.RawJob `json:"running"`
	RunningMore bool           `json:"running_more,omitempty"`
	Dead        []*dibs.RawJob `json:"dead,omitzero"`
	DeadMore    bool           `json:"dead_more,omitempty"`
}

// topOnce prints one snapshot.
func (a *app) topOnce(ctx context.Context, db cmdline.JobTable) error {
	s, err := readSnapshot(ctx, db, topQuery{})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.WriteJSON(a.topJSON(s))
	}
	v := topView{app: a, snap: s, width: a.Width}
	fmt.Fprintln(a.Stdout, v.totals())
	for t := range v.tabs() {
		table := v.table(t)
		if len(table.Rows) == 0 {
			fmt.Fprintf(a.Stdout, "\n  %s\n", empty[t])
			continue
		}
		fmt.Fprintf(a.Stdout, "\n%s\n", v.tabName(t))
		rest := a.firstOf(t, table, s.queues)
		for _, line := range v.drawList(table, a.Width, -1) {
			fmt.Fprintln(a.Stdout, line)
		}
		if rest != "" {
			fmt.Fprintln(a.Stdout, "  "+a.Paint(term.Faint, rest))
		}
	}
	return nil
}

// How many running and dead jobs a snapshot lists.
const (
	onceRunning = 20
	onceDead    = 5
)

// firstOf leaves a few jobs in a table of jobs, and says how many there are and which command lists them all.
func (a *app) firstOf(t topTab, table *term.Table, queues []admin.QueueStats) string {
	most, state, all := onceRunning, dibs.Running, int64(0)
	for _, q := range queues {
		if t == tabDead {
			most, state, all = onceDead, dibs.Dead, all+q.Dead
		} else {
			all += q.Running
		}
	}
	if t == tabQueues || len(table.Rows) <= most {
		return ""
	}
	all = max(all, int64(len(table.Rows)))
	table.Rows = table.Rows[:most]
	rest := fmt.Sprintf("the last %d of %s %s jobs; all: dibs ls", most, words.Count(all), state)
	if a.Table != "" {
		return rest + " --table " + words.ShellWord(a.Table) + " --state " + string(state)
	}
	rest += " --state " + string(state)
	if state == dibs.Dead {
		rest += "; by error: dibs failures"
	}
	return rest
}

func (a *app) topJSON(s snapshot) JSON {
	out := JSON{
		Queues: []any{}, Running: s.running, RunningMore: s.runningMore, Dead: s.dead, DeadMore: s.deadMore,
	}
	for _, q := range s.queues {
		out.Queues = append(out.Queues, jobs.StatsJSON(a.App, q, &s.why))
	}
	if out.Running == nil {
		out.Running = []*dibs.RawJob{}
	}
	if out.Dead == nil && a.Adopted.Knows("DEAD") {
		out.Dead = []*dibs.RawJob{}
	}
	return out
}
