package main

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

func newCancelCmd(a *app) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "cancel ID... | cancel --queue QUEUE [flags]",
		Short: "Cancel jobs",
		Long: `Cancel jobs: waiting and blocked ones end at once; the workers of running ones are
asked to stop, which they hear about with their next heartbeat.

Jobs that have ended already, and unknown ids, are reported with exit code 5.`,
		Example: `  dibs cancel 17 18
  dibs cancel --queue emails --kind newsletter
  dibs ls --group customer-7 --all --json | jq '.jobs[].id' | dibs cancel -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(cmd, args); err != nil {
				return err
			}
			return a.withExisting(cmd.Context(), func(db dibs.Database) error {
				return a.cancel(cmd.Context(), db, &s, args)
			})
		},
	}
	s.addFlags(cmd, "waiting, blocked or running; default: all of these")
	return cmd
}

func (a *app) cancel(ctx context.Context, db dibs.Database, s *selection, args []string) error {
	if dibs.State(s.state).Final() {
		return &dibs.InvalidError{Field: "state", Reason: fmt.Sprintf("must be waiting, blocked or running, got %q: such jobs have ended", s.state)}
	}
	ids, err := s.ids(ctx, db, a, args)
	if err != nil {
		return err
	}
	changed := make(map[int64]bool, len(ids))
	stopping := 0
	err = batches(ids, func(ids []int64) error {
		done, err := db.Cancel(ctx, ids)
		for _, c := range done {
			changed[c.ID] = true
			if c.State == dibs.Running {
				stopping++
			}
			if a.json {
				if err := a.writeJSON(c); err != nil {
					return err
				}
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if ended := len(changed) - stopping; !a.json && (ended > 0 || len(ids) == 0) {
		fmt.Fprintf(a.stdout, "cancelled %s\n", plural(ended, "job"))
	}
	if !a.json && stopping > 0 {
		fmt.Fprintf(a.stdout, "asked the workers of %s to stop\n", plural(stopping, "running job"))
	}
	if len(args) == 0 { // what ended between the list and the call is no mistake
		return nil
	}
	return missed(ids, changed, "cancelled", "there is no such job, or it has ended")
}
