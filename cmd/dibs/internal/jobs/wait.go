package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newWaitCmd(a *app) *cobra.Command {
	var timeout cmdline.DurationFlag
	cmd := &cobra.Command{
		Use:   "wait ID... [flags]",
		Short: "Wait until jobs have ended",
		Long: `Wait until all the named jobs have ended, and write each one when it has. A job that failed
and is retried has not ended.

The exit code is 0 if all have completed, 9 if one is dead or cancelled, and 10 if --timeout
was over before all had ended. While the database is unreachable, dibs waits on.

With --json, each job is one line as 'dibs show' writes it.

With --table, rows are waited for. Where the mapping deletes rows that have ended, there is
none left to show: the exit code is 5.`,
		Example: `  dibs wait 17 18 --timeout 5m
  dibs enqueue reports '{"month":"2026-10"}' --wait`,
		Args: cmdline.Asking("job", "17", 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > dibs.MaxBatch:
				return &dibs.InvalidError{Field: "ids", Reason: fmt.Sprintf("are %d, the limit is %d", len(args), dibs.MaxBatch)}
			case cmd.Flags().Changed("timeout") && timeout <= 0:
				return &dibs.InvalidError{Field: "timeout", Reason: "must be longer than 0"}
			}
			for _, name := range args {
				if _, err := cmdline.ParseID(name); err != nil && a.Table == "" {
					return err
				}
			}
			return a.WithTable(cmd.Context(), func(db cmdline.JobTable) error {
				return a.waitFor(cmd.Context(), db, args, time.Duration(timeout))
			})
		},
	}
	cmd.Flags().Var(&timeout, "timeout", "wait no longer than this; 0: as long as it takes")
	return cmd
}

// waitFor waits for jobs, and writes each when it has ended. timeout 0 means none.
func (a *app) waitFor(ctx context.Context, db cmdline.JobTable, names []string, timeout time.Duration) error {
	var ids []int64
	typed := map[int64]string{} // how an id was written: a row's id may be a text
	for _, name := range names {
		id, err := cmdline.IDOf(db, name)
		if err != nil {
			return err
		}
		if typed[id] == "" {
			ids, typed[id] = append(ids, id), name
		}
	}
	limited, stop := context.WithCancel(ctx)
	if timeout > 0 {
		limited, stop = context.WithTimeout(ctx, timeout)
	}
	defer stop()
	type waited struct {
		id  int64
		job *dibs.RawJob
		err error
	}
	ends := make(chan waited)
	for _, id := range ids {
		go func() {
			j, err := db.Wait(limited, id)
			ends <- waited{id, j, err}
		}()
	}
	var failed error
	late, others := map[int64]bool{}, 0
	for range ids {
		switch w := <-ends; {
		case errors.Is(w.err, context.DeadlineExceeded) && ctx.Err() == nil && !errors.Is(w.err, dibs.ErrUnavailable):
			late[w.id] = true
		case w.err != nil && failed == nil:
			failed = w.err
		case w.err == nil:
			a.writeEnd(w.job)
			if w.job.State != dibs.Completed {
				others++
			}
		}
	}
	switch {
	case failed != nil:
		return failed
	case len(late) > 0:
		ids = slices.DeleteFunc(ids, func(id int64) bool { return !late[id] })
		return &cmdline.CodeError{Code: cmdline.ExitTimeout, Err: fmt.Errorf("%s had not ended after %s: %s", words.Plural(len(ids), "job"), wire.FormatDuration(timeout), listed(ids, typed))}
	case others > 0:
		return &cmdline.CodeError{Code: cmdline.ExitNotCompleted, Err: fmt.Errorf("%s did not complete", words.Plural(others, "job"))}
	}
	return nil
}

// listed names up to ten jobs as they were typed.
func listed(ids []int64, typed map[int64]string) string {
	const most = 10
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, words.Printable(typed[id]))
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// writeEnd writes a job that has ended.
func (a *app) writeEnd(j *dibs.RawJob) {
	if a.JSON {
		a.Tell(j)
		return
	}
	what, state := "job", a.PaintState(j.State)
	if a.Adopted != nil {
		if what = "row"; j.State == dibs.Completed {
			state = "ended" // only the table knows in which final state
		}
	}
	line := fmt.Sprintf("%s %s  %s  %s", what, words.Printable(term.KeyOf(j)), state, words.OneLine(Note(j)))
	a.Say("%s", strings.TrimRight(line, " "))
}
