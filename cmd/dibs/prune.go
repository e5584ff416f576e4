package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

func newPruneCmd(a *app) *cobra.Command {
	var queue, state string
	var olderThan durationFlag
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune --older-than DURATION [flags]",
		Short: "Delete old finished jobs",
		Long: `Delete jobs that ended (completed, dead or cancelled) longer ago than --older-than. Workers do
so by themselves once a queue's --keep-completed, --keep-dead or --keep-cancelled
time is over; this is for doing it earlier.

--dry-run reads all finished jobs, and goes by this machine's clock.`,
		Example: `  dibs prune --older-than 1h --state completed
  dibs prune --older-than 0s --queue test`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withExistingDatabase(ctx, func(db dibs.Database) error {
				if err := checkQueue(ctx, db, queue); err != nil {
					return err
				}
				if dryRun {
					return a.wouldPrune(ctx, db, queue, dibs.State(state), time.Duration(olderThan))
				}
				n, err := db.Prune(ctx, queue, dibs.State(state), time.Duration(olderThan))
				if err != nil {
					return err
				}
				if a.json {
					a.tell(struct {
						Pruned int `json:"pruned"`
					}{n})
					return nil
				}
				a.say("deleted %s", plural(n, "finished job"))
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.Var(&olderThan, "older-than", "least time since the jobs have ended")
	f.StringVarP(&queue, "queue", "q", "", "only jobs of this `queue`")
	f.StringVarP(&state, "state", "s", "", "only those `state`: completed, dead or cancelled")
	f.BoolVar(&dryRun, "dry-run", false, "delete nothing; print how many jobs would go, with --json which ones")
	if err := cmd.MarkFlagRequired("older-than"); err != nil {
		panic(err)
	}
	return cmd
}

// wouldPrune prints what prune would delete.
func (a *app) wouldPrune(ctx context.Context, db dibs.Database, queue string, state dibs.State, olderThan time.Duration) error {
	states := []dibs.State{state}
	switch {
	case state == "":
		states = []dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled}
	case !state.Final():
		return &dibs.InvalidError{Field: "state", Reason: fmt.Sprintf("must be completed, dead or cancelled, got %q", state)}
	}
	if olderThan < 0 {
		return &dibs.InvalidError{Field: "older_than", Reason: "must not be negative"}
	}
	bar := &progress{}
	if !a.json {
		bar = a.progress("jobs", -1)
	}
	defer bar.close()
	before, n := time.Now().Add(-olderThan), 0
	for _, state := range states {
		by := selection{queue: queue, state: string(state)}
		err := by.eachListed(ctx, db, func(j chosen) error {
			bar.add(1)
			if j.finishedAt.After(before) {
				return nil
			}
			if n++; a.json {
				return a.writeJSON(changed{j.id, j.state})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !a.json {
		bar.clear()
		a.say("would delete %s", plural(n, "finished job"))
	}
	return nil
}
