package jobs

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

func newEditCmd(a *app) *cobra.Command {
	var s selection
	var priority int
	var runAt cmdline.TimeFlag
	cmd := &cobra.Command{
		Use:   "edit ID... --priority N | --run-at TIME",
		Short: "Change the priority or start time of jobs that wait",
		Long: `Change the priority or the start time of waiting and blocked jobs. Running jobs keep
theirs.

Jobs that do not wait, and unknown ids, are reported with exit code 5.
The id '-' reads ids from stdin, 10,000 at a time.`,
		Example: `  dibs edit 17 18 --priority 10
  dibs edit --queue emails --kind newsletter --run-at "2026-12-31 23:59"
  dibs edit 17 --run-at now`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(a, cmd, args); err != nil {
				return err
			}
			var e admin.Edit
			if cmd.Flags().Changed("priority") {
				e.Priority = &priority
			}
			if cmd.Flags().Changed("run-at") {
				at := time.Time(runAt)
				e.RunAt = &at
			}
			if e == (admin.Edit{}) {
				return cmdline.Usagef(cmd, "what is to change? give --priority or --run-at")
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				c := bulkChange{
					app: a, selection: &s, db: db, cmd: cmd,
					words:      changeWords{"changed %s", "would change %s", "changed", "there is no such job, or it does not wait", ""},
					changeable: func(state dibs.State) bool { return state == dibs.Waiting || state == dibs.Blocked },
					apply: func(ids []int64, _ time.Time) ([]changed, error) {
						done, err := db.Edit(cmd.Context(), ids, e)
						return changedTo("", done), err
					},
				}
				return c.run(cmd.Context())
			})
		},
	}
	f := cmd.Flags()
	f.IntVarP(&priority, "priority", "p", dibs.DefaultPriority, "new priority, `0-32767`, small first")
	f.Var(&runAt, "run-at", "new start `time`, or now")
	s.addFlags(cmd, "waiting or blocked; default: both")
	return cmd
}
