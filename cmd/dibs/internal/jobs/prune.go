package jobs

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newPruneCmd(a *app) *cobra.Command {
	s := selection{ended: true}
	var olderThan cmdline.DurationFlag
	cmd := &cobra.Command{
		Use:   "prune --older-than DURATION [flags] | prune ID... | prune --error TEXT [flags]",
		Short: "Delete finished jobs",
		Long: `Delete jobs that have ended (completed, dead or cancelled): those that ended longer ago than
--older-than, those with the ids, or those that the flags describe. Workers delete old ones by
themselves once a queue's --keep-completed, --keep-dead or --keep-cancelled time is over.

A job is kept, whatever its age, until all jobs that come after it have ended: it is not among
those deleted ('dibs flow ID' counts those that come after it).

Jobs that have not ended, and unknown ids, are reported with exit code 5, and so are those kept.
The id '-' reads ids from stdin, 10,000 at a time.

With --kind, --group, --worker or --error it reads the jobs first and then deletes those, as
'requeue' does; what others have requeued meanwhile stays. --older-than then goes by this
machine's clock, as it does with --dry-run.`,
		Example: `  dibs prune --older-than 1h --state completed
  dibs prune --state dead --queue emails --error 'no such user' --dry-run
  dibs prune 17 18`,
		RunE: func(cmd *cobra.Command, args []string) error {
			aged := cmd.Flags().Changed("older-than")
			switch {
			case aged && len(args) > 0:
				return cmdline.Usagef(cmd, "give either ids or --older-than, not both")
			case s.state != "" && !dibs.State(s.state).Final() || olderThan < 0:
				return checks.Prune(s.queue, dibs.State(s.state), time.Duration(olderThan))
			case !aged:
				if err := s.check(a, cmd, args); err != nil {
					return err
				}
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				if aged && !s.dryRun && !s.narrow() {
					return a.pruneOld(cmd, db, &s, time.Duration(olderThan))
				}
				if s.all = s.all || aged; aged { // the age is a confirmation
					s.before = time.Now().Add(-time.Duration(olderThan))
				}
				c := bulkChange{
					app: a, selection: &s, db: db, cmd: cmd,
					words:      changeWords{"deleted %s", "would delete %s", "deleted", "there is no such job, or it or a job that comes after it has not ended", "jobs that come after it have not ended"},
					changeable: dibs.State.Final,
					apply: func(ids []int64, until time.Time) ([]changed, error) {
						done, err := db.DeleteEnded(cmd.Context(), ids, until)
						return changedTo("", done), err
					},
				}
				return c.run(cmd.Context())
			})
		},
	}
	cmd.Flags().Var(&olderThan, "older-than", "least time since the jobs have ended")
	s.addFlags(cmd, "completed, dead, cancelled; default: all")
	return cmd
}

// narrow reports whether the selected jobs must be listed to be found.
func (s *selection) narrow() bool {
	return s.kind != "" || s.group != "" || s.worker != "" || s.error != ""
}

// pruneOld deletes the jobs of a queue and state, or of all, that ended long ago. It needs no list.
func (a *app) pruneOld(cmd *cobra.Command, db admin.Database, s *selection, olderThan time.Duration) error {
	ctx := cmd.Context()
	if err := cmdline.CheckQueue(ctx, db, s.queue); err != nil {
		return err
	}
	n, err := db.Prune(ctx, s.queue, dibs.State(s.state), olderThan)
	a.Noted(ctx, db, cmd.Name(), n, cmdline.WithFlags(cmd, words.Jobs(nil, n)))
	if err != nil {
		return err
	}
	a.Done(map[string]int{"pruned": n}, "deleted %s", words.Plural(n, "job"))
	return nil
}
