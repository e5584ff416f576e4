package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTakes is how long a shell waits for words to offer.
var completionTakes = 2 * time.Second

// completeQueues offers the names of queues to the shell. After an error it offers
// nothing, so that it does not disturb the prompt.
func (a *app) completeQueues(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTakes)
	defer cancel()
	var names []string
	err := a.withTable(ctx, func(db jobTable) error {
		queues, err := db.Queues(ctx)
		for _, q := range queues {
			if strings.HasPrefix(q.Name, begun) {
				names = append(names, q.Name)
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeQueue is completeQueues for verbs of which only the first argument is a queue.
func (a *app) completeQueue(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeQueues(cmd, args, begun)
}
