package queues

import (
	"errors"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newQueueRmCmd(a *app) *cobra.Command {
	var ended bool
	cmd := &cobra.Command{
		Use:     "rm QUEUE... [flags]",
		Aliases: []string{"delete", "remove"},
		Short:   "Delete queues that nothing needs",
		Long: `Delete queues with their settings and those of their groups. A queue stays while a job of it has
not ended, a schedule enqueues into it, or a worker serves it; the error says which. So it does
while it keeps ended jobs, or unique keys for a period: --ended deletes these first.

If one of the queues is unknown, none is deleted; the first that is needed ends the command. A job
that is enqueued later, or just now, makes its queue anew, with default settings.`,
		Example: `  dibs queue rm imports-2025
  dibs queue rm imports-2024 imports-2025 --ended`,
		Args: cmdline.Asking("queue", "emails", 0),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				return a.removeQueues(cmd, db, names, ended)
			})
		},
		ValidArgsFunction: a.CompleteQueues,
	}
	cmd.Flags().BoolVar(&ended, "ended", false, "delete ended jobs and what they have left first")
	return cmd
}

func (a *app) removeQueues(cmd *cobra.Command, db admin.Database, names []string, ended bool) error {
	ctx := cmd.Context()
	for _, name := range names {
		if _, err := find(ctx, db, name, &change{}); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := db.DeleteQueue(ctx, name, ended); err != nil {
			return queueInUse(err, name, ended)
		}
		a.Noted(ctx, db, "delete", 1, cmdline.WithFlags(cmd, "queue "+name))
		a.Done(map[string]string{"deleted": name}, "deleted queue %s", words.Printable(name))
	}
	return nil
}

// queueInUse adds to the error for a queue that is needed the commands that help.
func queueInUse(err error, name string, ended bool) error {
	if !errors.Is(err, dibs.ErrQueueInUse) {
		return err
	}
	next := "see its jobs with '" + words.Command("dibs ls", name) + "', and cancel those that have not ended"
	if !ended {
		next += "; --ended deletes those that have ended"
	}
	return &cmdline.HintError{Err: err, Next: next}
}
