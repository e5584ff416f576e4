package main

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/spf13/cobra"
)

func newTopCmd(a *app) *cobra.Command {
	var once bool
	interval := durationFlag(time.Second)
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

Without a terminal, or with --once, it prints one snapshot and exits.

With --table it shows what 'dibs stats' can tell of that table, and its running rows; p and
r do nothing there.`,
		Example: `  dibs top --interval 5s
  dibs top --once --json | jq '.queues[] | {queue, waiting}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			every := time.Duration(interval)
			if every < 100*time.Millisecond || every > time.Hour {
				return usagef(cmd, "--interval must be 100ms to 1h, got %s", wire.FormatDuration(every))
			}
			return a.withTable(cmd.Context(), func(db jobTable) error {
				if once || a.json || !a.outTTY {
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
func (a *app) top(ctx context.Context, db jobTable, every time.Duration, o ...tea.ProgramOption) error {
	m := &topModel{ctx: ctx, db: db, interval: every, topView: topView{app: a, title: a.dbURL().String()}}
	o = append(o, tea.WithContext(ctx), tea.WithOutput(a.screen), tea.WithoutSignalHandler())
	_, err := tea.NewProgram(m, o...).Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

type topJSON struct {
	Queues      []any          `json:"queues"`
	Running     []*dibs.RawJob `json:"running"`
	RunningMore bool           `json:"running_more,omitempty"`
	Dead        []*dibs.RawJob `json:"dead,omitzero"`
	DeadMore    bool           `json:"dead_more,omitempty"`
}

// topOnce prints one snapshot.
func (a *app) topOnce(ctx context.Context, db jobTable) error {
	s, err := readSnapshot(ctx, db, topQuery{})
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(a.topJSON(s))
	}
	v := topView{app: a, snap: s, width: a.width}
	fmt.Fprintln(a.stdout, v.totals())
	for t := range v.tabs() {
		table := v.table(t)
		if len(table.rows) == 0 {
			fmt.Fprintf(a.stdout, "\n  %s\n", table.empty)
			continue
		}
		fmt.Fprintf(a.stdout, "\n%s\n", v.tabName(t))
		for _, line := range table.draw(v.app, a.width, -1) {
			fmt.Fprintln(a.stdout, line)
		}
	}
	return nil
}

func (a *app) topJSON(s snapshot) topJSON {
	out := topJSON{
		Queues: []any{}, Running: s.running, RunningMore: s.runningMore, Dead: s.dead, DeadMore: s.deadMore,
	}
	for _, q := range s.queues {
		out.Queues = append(out.Queues, a.statsJSON(q, &s.why))
	}
	if out.Running == nil {
		out.Running = []*dibs.RawJob{}
	}
	if out.Dead == nil && a.adopted.knows("DEAD") {
		out.Dead = []*dibs.RawJob{}
	}
	return out
}
