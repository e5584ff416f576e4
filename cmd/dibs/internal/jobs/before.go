package jobs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

func newBeforeCmd(a *app) *cobra.Command {
	var limit int
	var after int64
	var all bool
	cmd := &cobra.Command{
		Use:   "before ID [flags]",
		Short: "List the jobs that a job comes after",
		Long: `List the jobs that a job comes after, in the order of their ids: their states, and the results
of completed ones. They are kept until the job has ended. 'dibs flow ID' only counts them.

A list has up to --limit jobs, and fewer if they are large. --after takes what the list before
ended with, to go on from there; --all goes on to the end. With --json each page is one object
with "jobs", as 'dibs ls' writes them, and, if there are more, "next" for --after.`,
		Example: `  dibs before 17
  dibs before 17 --all --json | jq -c '.jobs[] | {id, state, result}'`,
		Args: cmdline.Asking("job", "17", 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := cmdline.ParseID(args[0])
			switch {
			case err != nil:
				return err
			case limit < 1 || limit > 1000:
				return &dibs.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be 1 to 1000, got %d", limit)}
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				if _, err := db.Get(cmd.Context(), id); err != nil {
					return err
				}
				return a.listBefore(cmd.Context(), db, id, after, limit, all)
			})
		},
	}
	fs := cmd.Flags()
	fs.IntVarP(&limit, "limit", "n", 100, "how many at most, `1-1000`")
	fs.Int64Var(&after, "after", 0, "go on after the job with this `id`, where the list before ended")
	fs.BoolVar(&all, "all", false, "go on to the end")
	return cmd
}

// listBefore writes the jobs that a job comes after, in pages like those of list.
func (a *app) listBefore(ctx context.Context, db dibs.BeforeStore, id, after int64, limit int, all bool) error {
	for first := true; ; first = false {
		jobs, next, err := db.Before(ctx, id, after, limit)
		if err != nil {
			return err
		}
		page := admin.Page{Jobs: append([]*dibs.RawJob{}, jobs...)}
		if next != 0 {
			page.Next = strconv.FormatInt(next, 10)
		}
		switch {
		case a.JSON:
			err = a.WriteJSON(page)
		case len(jobs) > 0:
			a.writeJobs(jobs)
		case first && next == 0 && after == 0:
			a.Say("job %d comes after no other", id)
		case first && next == 0:
			a.Say("no such jobs")
		}
		if err != nil || next == 0 {
			return err
		}
		if !all {
			if !a.JSON {
				a.sayMore(page.Next)
			}
			return nil
		}
		after = next
	}
}
