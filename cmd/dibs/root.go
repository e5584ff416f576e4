package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The headings of the root help.
const (
	groupJobs    = "jobs"
	groupScripts = "scripts"
	groupQueues  = "queues"
	groupRest    = "rest"
)

func init() { cobra.EnableCommandSorting = false } // keep the order of commands.go

// suggestion says in words of dibs what cobra reports: flags that exclude each other, and the
// command that a wrong one may mean, the one of otherWords or a similar one.
func suggestion(err error) error {
	problem, alike, found := strings.Cut(err.Error(), "\n\nDid you mean this?\n\t")
	var word string
	var names []string
	if _, flags, several := strings.Cut(problem, "none of the others can be; ["); several { // the words of cobra
		flags, _, _ = strings.Cut(flags, "]")
		return fmt.Errorf("only one of --%s can be given", strings.ReplaceAll(flags, " ", " and --"))
	}
	if _, other := fmt.Sscanf(problem, "unknown command %q", &word); other == nil {
		for _, name := range slices.Sorted(maps.Keys(otherWords)) {
			if slices.Contains(otherWords[name], word) {
				names = append(names, name)
			}
		}
	}
	switch {
	case names == nil && !found:
		return err
	case names == nil:
		names = strings.Split(strings.TrimSpace(alike), "\n\t")
	}
	return fmt.Errorf("%s; did you mean %s?", problem, strings.Join(names, " or "))
}

func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "dibs",
		Short: "A work queue in the SQL database that you already have",
		Long: `dibs is a work queue kept in a SQLite file or a PostgreSQL database. Many workers
on many machines take work from it at once: no two ever hold the same job, no job
is left behind, and no claim waits for another's lock.`,
		Example: `  dibs demo                                        watch it work
  dibs enqueue emails '{"to":"ann@example.com"}'   add a job
  dibs work emails --concurrency 8 -- ./send.sh    run a program for each job
  dibs top                                         look at the queues`,
		Version:       readVersion().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.Var(&a.dbFlag, "db", "`URL` of the database: sqlite:PATH or postgres://…; default $DIBS_DB,\nelse sqlite:dibs.db")
	f.StringVar(&a.schema, "schema", a.schema, "PostgreSQL: `SCHEMA` of the tables; default $DIBS_SCHEMA, else dibs")
	f.StringVar(&a.prefix, "prefix", a.prefix, "SQLite: `PREFIX` of the tables' names; default $DIBS_PREFIX, else dibs_")
	f.BoolVar(&a.pooler, "pooler", false, "PostgreSQL: the server is behind a pooler in transaction mode;\ndetected where possible")
	f.BoolVar(&a.json, "json", false, "write JSON to stdout (see 'dibs help json')")
	f.SortFlags = false
	root.Flags().Bool("version", false, "show the version of this program")
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().SortFlags = false

	root.AddGroup(
		&cobra.Group{ID: groupJobs, Title: "Jobs:"},
		&cobra.Group{ID: groupScripts, Title: "Workers:"},
		&cobra.Group{ID: groupQueues, Title: "Queues:"},
		&cobra.Group{ID: groupRest, Title: "Database and more:"},
	)
	root.SetHelpCommandGroupID(groupRest)
	root.SetCompletionCommandGroupID(groupRest)
	root.SetFlagErrorFunc(flagError)
	addCommands(a, root)
	a.wrapHelp(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error { // cobra would quote all of them, and succeed
			_, _, err := root.Find(args)
			return err
		}
	}
	return root
}

// asksForVerb is what a command does that only has others below it. Its help would be no answer to a script whose verb is
// an empty variable, and no JSON.
func asksForVerb(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usagef(cmd, "which command? give one of: %s", strings.Join(names, ", "))
}

// atMost checks that there are no more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%.40q is one argument too many: write %s", args[n], cmd.UseLine())
		}
		return nil
	}
}

// queueArg takes the queue from the argument, unless --queue names it.
func queueArg(cmd *cobra.Command, args []string, queue *string) error {
	switch {
	case len(args) == 0:
	case cmd.Flags().Changed("queue"):
		return usagef(cmd, "queue %.40q is named beside --queue: name one", args[0])
	default:
		*queue = args[0]
	}
	return nil
}

// asking checks that there is an argument, and with most 1 no second one. It asks for a missing
// one, with a sample.
func asking(what, sample string, most int) cobra.PositionalArgs {
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
