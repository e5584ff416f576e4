package main

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

func newPruneCmd(a *app) *cobra.Command {
	var queue, state string
	var olderThan durationFlag
	cmd := &cobra.Command{
		Use:   "prune --older-than DURATION [flags]",
		Short: "Delete old finished jobs",
		Long: `Delete jobs that were completed, dead or cancelled longer ago than that. Workers do
so by themselves once a queue's --keep-completed, --keep-dead or --keep-cancelled
time is over; this is for doing it earlier.`,
		Example: `  dibs prune --older-than 1h --state completed
  dibs prune --older-than 0s --queue test`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withExisting(ctx, func(db dibs.Database) error {
				if err := checkQueue(ctx, db, queue); err != nil {
					return err
				}
				n, err := db.Prune(ctx, queue, dibs.State(state), time.Duration(olderThan))
				if err != nil {
					return err
				}
				if a.json {
					return a.writeJSON(struct {
						Pruned int `json:"pruned"`
					}{n})
				}
				a.say("deleted %s", plural(n, "finished job"))
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.Var(&olderThan, "older-than", "how long ago they must have ended, at least")
	f.StringVarP(&queue, "queue", "q", "", "only jobs of this `queue`")
	f.StringVarP(&state, "state", "s", "", "only those `state`: completed, dead or cancelled")
	if err := cmd.MarkFlagRequired("older-than"); err != nil {
		panic(err)
	}
	return cmd
}
