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
	add(groupRest, newVersionCmd(a))
	root.AddCommand(newExitCodesTopic(), newJSONTopic())
}
