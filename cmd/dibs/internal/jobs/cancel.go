package jobs

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/spf13/cobra"
)

func newCancelCmd(a *app) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "cancel ID... | cancel --queue QUEUE [flags]",
		Short: "Cancel jobs",
		Long: `Cancel jobs: waiting and blocked ones end at once; the workers of running ones are
asked to stop when they next extend their leases. Jobs that come after a cancelled one, and need
it completed, are cancelled too; --flow cancels all jobs of a flow that have not ended, those
that come after others first, so none of them starts meanwhile. 'dibs help flow' says what a flow
is. 'dibs requeue --flow' puts them back.

Jobs that have ended already, and unknown ids, are reported with exit code 5.
The id '-' reads ids from stdin, 10,000 at a time.`,
		Example: `  dibs cancel 17 18
  dibs cancel --queue emails --kind newsletter
  dibs cancel --flow 17
  dibs ls --group customer-7 --all --json | jq '.jobs[].id' | dibs cancel -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dibs.State(s.state).Final() {
				return &dibs.InvalidError{Field: "state", Reason: fmt.Sprintf("must be waiting, blocked or running, got %q: such jobs have ended", s.state)}
			}
			if err := s.check(a, cmd, args); err != nil {
				return err
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				c := bulkChange{
					app: a, selection: &s, db: db, cmd: cmd,
					words:      changeWords{"cancelled %s", "would cancel %s", "cancelled", "there is no such job, or it has ended", ""},
					changeable: func(state dibs.State) bool { return !state.Final() },
					consequences: func(ids []int64) []string {
						if s.flow != 0 || !around(cmd.Context(), db, ids, 1, followed) {
							return nil
						}
						return []string{"jobs that come after " + itOrThem(ids) + ", and need that completed, are cancelled too"}
					},
					apply: func(ids []int64, _ time.Time) ([]changed, error) {
						ended, asked, err := db.Cancel(cmd.Context(), ids)
						return append(changedTo(dibs.Cancelled, ended), changedTo(dibs.Running, asked)...), err
					},
				}
				return c.run(cmd.Context())
			})
		},
	}
	s.addFlags(cmd, "waiting, blocked or running; default: all of these")
	s.addFlow(cmd, "all jobs")
	return cmd
}
