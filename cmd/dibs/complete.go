package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeQueues offers the names of queues to the shell. What goes wrong there
// must not disturb the prompt: it offers nothing then.
func (a *app) completeQueues(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
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

// completeQueue is completeQueues for verbs whose first argument alone is a queue.
func (a *app) completeQueue(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeQueues(cmd, args, begun)
}
