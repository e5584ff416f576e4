package jobs

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

func newRequeueCmd(a *app) *cobra.Command {
	s := selection{failed: true}
	cmd := &cobra.Command{
		Use:   "requeue ID... | requeue --state dead [flags]",
		Short: "Have finished jobs run again",
		Long: `Put completed, dead or cancelled jobs back to waiting: due now, with all their
attempts allowed again and their history kept. A job whose unique key another job
holds by now comes back without its key.

The jobs that were cancelled because of a job come back with it. A job that comes after others
waits for those that have not ended, and is cancelled again if one has ended otherwise than it
needs: requeue that one. Of up to 10 jobs, dibs says so. --flow puts back all jobs of a flow that
are dead, or were cancelled though they were needed: so it undoes 'dibs cancel --flow'.

Jobs that have not ended, and unknown ids, are reported with exit code 5.
The id '-' reads ids from stdin, 10,000 at a time.

With --table, rows are requeued that are dead by the side table alone (--state dead).`,
		Example: `  dibs requeue 17
  dibs requeue --state dead --queue emails --dry-run
  dibs requeue --state dead --all
  dibs requeue --flow 17`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(a, cmd, args); err != nil {
				return err
			}
			if len(args) == 0 && s.flow == 0 && !dibs.State(s.state).Final() {
				return cmdline.Usagef(cmd, "give --state completed, dead or cancelled: only such jobs can be requeued")
			}
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				others := false // some jobs were cancelled because of those requeued
				c := bulkChange{
					app: a, selection: &s, db: db, cmd: cmd,
					words:      changeWords{"requeued %s", "would requeue %s", "requeued", "there is no such job, or it has not ended", ""},
					changeable: func(s dibs.State) bool { return s.Final() && (a.Adopted == nil || s == dibs.Dead) },
					apply: func(ids []int64, until time.Time) ([]changed, error) {
						var done []int64
						var err error
						switch db := db.(type) {
						case admin.Database: // what was done again since it was listed stays as it is
							others = others || around(cmd.Context(), db, ids, 1, caused)
							done, err = db.Requeue(cmd.Context(), ids, until)
						case interface {
							Requeue(ctx context.Context, ids []int64) ([]int64, error)
						}: // an adopted table
							done, err = db.Requeue(cmd.Context(), ids)
						}
						return changedTo("", done), err
					},
					consequences: func(ids []int64) (lines []string) {
						if others {
							lines = append(lines, "the jobs that were cancelled because of "+itOrThem(ids)+" come back, too")
						}
						if line := letGo(cmd.Context(), db, ids); line != "" {
							lines = append(lines, line)
						}
						if db, own := db.(admin.Database); own {
							lines = append(lines, waitingAgain(cmd.Context(), db, ids)...)
						}
						return lines
					},
				}
				return c.run(cmd.Context())
			})
		},
	}
	s.addFlags(cmd, "completed, dead or cancelled")
	s.addFlow(cmd, "all dead and cancelled jobs")
	return cmd
}
