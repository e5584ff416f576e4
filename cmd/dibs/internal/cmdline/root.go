package cmdline

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/spf13/cobra"
)

func init() { cobra.EnableCommandSorting = false } // keep the order of the headings

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
		for _, name := range slices.Sorted(maps.Keys(OtherWords)) {
			if slices.Contains(OtherWords[name], word) {
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

// Heading is a heading of the root's help, with the names of the commands below it.
type Heading struct {
	Title string
	Names []string
}

// NewRoot makes the command that all others are below. Commands without a heading come last.
func NewRoot(a *App, headings []Heading, commands []*cobra.Command) *cobra.Command {
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
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.Var(&a.DBFlag, "db", "`URL` of the database: sqlite:PATH or postgres://…; default $DIBS_DB,\nelse sqlite:dibs.db")
	f.StringVar(&a.Schema, "schema", a.Schema, "PostgreSQL: `SCHEMA` of the tables; default $DIBS_SCHEMA, else dibs")
	f.StringVar(&a.Prefix, "prefix", a.Prefix, "SQLite, MariaDB: `PREFIX` of the table names; default $DIBS_PREFIX, else dibs_")
	f.BoolVar(&a.pooler, "pooler", false, "PostgreSQL: the server is behind a pooler in transaction mode;\ndetected where possible")
	f.BoolVar(&a.JSON, "json", false, "write JSON to stdout (see 'dibs help json')")
	f.SortFlags = false
	root.Flags().Bool("version", false, "show the version of this program")
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().SortFlags = false

	for _, h := range headings {
		root.AddGroup(&cobra.Group{ID: h.Title, Title: h.Title})
		for _, name := range h.Names {
			i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == name })
			commands[i].GroupID = h.Title
			root.AddCommand(commands[i])
		}
		root.SetHelpCommandGroupID(h.Title)
		root.SetCompletionCommandGroupID(h.Title)
	}
	for _, c := range commands {
		if c.Flags().SortFlags = false; c.GroupID == "" {
			root.AddCommand(c)
		}
		a.markBegun(c)
	}
	root.SetFlagErrorFunc(flagError)
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

// wrapHelp has the help of all commands broken between words on a terminal that is narrower than it.
func (a *App) wrapHelp(root *cobra.Command) {
	if !a.OutTTY {
		return
	}
	whole := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		root.SetOut(&text)
		whole(cmd, args)
		root.SetOut(a.Stdout)
		_, _ = a.Stdout.Write([]byte(term.Wrapped(text.String(), a.Width))) // watchOutput sees an error
	})
}

// OtherWords are other queues' words for commands. The error for one of them names the
// command.
var OtherWords = map[string][]string{
	"enqueue":  {"add", "push", "send", "insert", "publish", "put", "submit", "create", "new", "produce"},
	"ls":       {"list", "jobs", "find", "search"},
	"show":     {"status", "get", "view", "inspect", "describe", "peek", "info"},
	"edit":     {"update", "set", "change", "modify", "reschedule"},
	"cancel":   {"abort", "kill", "stop", "revoke", "remove", "rm", "delete", "del"},
	"requeue":  {"retry", "rerun", "replay", "redo", "restart"},
	"prune":    {"delete", "del", "remove", "rm", "purge", "clean", "clear", "flush", "vacuum", "drop"},
	"wait":     {"await", "join", "watch", "follow", "block"},
	"flow":     {"tree", "graph", "workflow", "deps", "batch"},
	"work":     {"worker", "run", "consume", "consumer", "process", "start"},
	"serve":    {"server", "listen", "http", "api", "rest", "web"},
	"claim":    {"fetch", "dequeue", "pop", "take", "receive", "poll", "lease", "reserve"},
	"extend":   {"renew", "touch", "heartbeat", "keepalive", "keep-alive"},
	"finish":   {"ack", "nack", "complete", "done", "fail", "report", "release", "snooze"},
	"stats":    {"status", "count", "counts", "metrics", "info"},
	"failures": {"errors", "dead", "failed", "exceptions"},
	"workers":  {"who", "ps", "processes", "consumers"},
	"top":      {"watch", "monitor", "ui", "dashboard"},
	"queue":    {"queues", "config", "settings", "limit", "limits"},
	"pause":    {"stop", "suspend", "disable", "hold"},
	"resume":   {"unpause", "continue", "enable", "start"},
	"migrate":  {"init", "setup", "install", "schema", "upgrade"},
	"check":    {"verify", "validate", "fsck"},
	"doctor":   {"diagnose", "health", "troubleshoot", "debug", "wrong"},
	"bench":    {"benchmark"},
	"schedule": {"schedules", "cron", "periodic", "every", "timer"},
	"torture":  {"chaos"},
}

// markBegun makes a command set App.running when it begins: earlier errors are usage errors.
func (a *App) markBegun(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.Running, a.ApplicationName = true, cmd.CommandPath()
			if a.pooler {
				if _, own := cmd.Annotations[OwnPlace]; a.DBFlag == "" && !own {
					a.DBFlag = a.URL()
				}
				var err error
				if a.DBFlag, err = a.DBFlag.BehindPooler(); err != nil {
					return err
				}
			}
			return run(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		a.markBegun(sub)
	}
}

// OwnPlace marks the commands that ignore $DIBS_DB.
const OwnPlace = "own place"
