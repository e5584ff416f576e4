package cmdline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// AsksForVerb is what a command does that only has others below it. Its help would be no answer to a script whose verb is
// an empty variable, and no JSON.
func AsksForVerb(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return Usagef(cmd, "which command? give one of: %s", strings.Join(names, ", "))
}

// AtMost checks that there are no more than n arguments.
func AtMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%.40q is one argument too many: write %s", args[n], cmd.UseLine())
		}
		return nil
	}
}

// QueueArg takes the queue from the argument, unless --queue names it.
func QueueArg(cmd *cobra.Command, args []string, queue *string) error {
	switch {
	case len(args) == 0:
	case cmd.Flags().Changed("queue"):
		return Usagef(cmd, "queue %.40q is named beside --queue: name one", args[0])
	default:
		*queue = args[0]
	}
	return nil
}

// Asking checks that there is an argument, and with most 1 no second one. It asks for a missing
// one, with a sample.
func Asking(what, sample string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("which %s? write for example: %s %s", what, cmd.CommandPath(), sample)
		case most > 0 && len(args) > most:
			return fmt.Errorf("only one %s can be named; %.40q is too many", what, args[most])
		}
		return nil
	}
}
