package cmdline

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// CompletionTakes is how long a shell waits for words to offer.
var CompletionTakes = 2 * time.Second

// Offer offers to the shell the names that read finds. After an error it offers nothing, so that it does not disturb the
// prompt.
func Offer(cmd *cobra.Command, read func(context.Context) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTakes)
	defer cancel()
	names, err := read(ctx)
	if err != nil {
		names = nil
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteQueues offers the names of queues to the shell.
func (a *App) CompleteQueues(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return Offer(cmd, func(ctx context.Context) (names []string, err error) {
		err = a.WithTable(ctx, func(db JobTable) error {
			names, err = QueueNames(ctx, db)
			names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, begun) })
			return err
		})
		return names, err
	})
}

// CompleteQueue is CompleteQueues for verbs of which only the first argument is a queue.
func (a *App) CompleteQueue(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.CompleteQueues(cmd, args, begun)
}
