package main

import "github.com/spf13/cobra"

// addCommands adds every verb, under its heading in the help.
func addCommands(a *app, root *cobra.Command) {
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			c.Flags().SortFlags = false
			root.AddCommand(c)
		}
	}
	add(groupJobs, newEnqueueCmd(a), newLsCmd(a), newShowCmd(a), newEditCmd(a), newCancelCmd(a), newRequeueCmd(a), newPruneCmd(a))
	add(groupScripts, newWorkCmd(a), newClaimCmd(a), newExtendCmd(a), newFinishCmd(a))
	add(groupQueues, newStatsCmd(a), newTopCmd(a), newQueueCmd(a), newPauseCmd(a), newResumeCmd(a))
	add(groupRest, newDemoCmd(a), newMigrateCmd(a), newCheckCmd(a), newVersionCmd(a))
	root.AddCommand(newExitCodesTopic(), newJSONTopic())
}
