package main

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

func newRequeueCmd(a *app) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "requeue ID... | requeue --state dead [flags]",
		Short: "Put finished jobs back to waiting",
		Long: `Put completed, dead or cancelled jobs back to waiting: due now, with all their
attempts allowed again and their history kept. A job whose unique key another job
holds by now comes back without its key.

Jobs that have not ended, and unknown ids, are reported with exit code 5.`,
		Example: `  dibs requeue 17
  dibs requeue --state dead --queue emails`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(cmd, args); err != nil {
				return err
			}
			if len(args) == 0 && !dibs.State(s.state).Final() {
				return usagef(cmd, "give --state completed, dead or cancelled: only such jobs can be put back")
			}
			return a.withExisting(cmd.Context(), func(db dibs.Database) error {
				return a.requeue(cmd.Context(), db, &s, args)
			})
		},
	}
	s.addFlags(cmd, "completed, dead or cancelled")
	return cmd
}

func (a *app) requeue(ctx context.Context, db dibs.Database, s *selection, args []string) error {
	ids, err := s.ids(ctx, db, a, args)
	if err != nil {
		return err
	}
	changed, err := a.change(ids, func(ids []int64) ([]int64, error) { return db.Requeue(ctx, ids) })
	if err != nil {
		return err
	}
	if !a.json && (len(changed) > 0 || len(ids) == 0) {
		fmt.Fprintf(a.stdout, "put %s back to waiting\n", plural(len(changed), "job"))
	}
	if len(args) == 0 {
		return nil
	}
	return missed(ids, changed, "put back", "there is no such job, or it has not ended")
}

// change calls f in batches and collects, and with --json writes, the ids that it changed.
func (a *app) change(ids []int64, f func([]int64) ([]int64, error)) (map[int64]bool, error) {
	changed := make(map[int64]bool, len(ids))
	err := batches(ids, func(ids []int64) error {
		done, err := f(ids)
		for _, id := range done {
			changed[id] = true
			if a.json {
				if err := a.writeJSON(struct {
					ID int64 `json:"id"`
				}{id}); err != nil {
					return err
				}
			}
		}
		return err
	})
	return changed, err
}
