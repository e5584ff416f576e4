package main

import (
	"slices"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/daemon"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/database"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/jobs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/queues"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/top"
	"github.com/spf13/cobra"
)

// app is one run of the command; the demo, the torture and the bench are its methods.
type app struct{ *cmdline.App }

// headings are those of the root's help.
var headings = []cmdline.Heading{
	{Title: "Jobs:", Names: []string{"enqueue", "ls", "show", "flow", "before", "wait", "edit", "cancel", "requeue", "prune"}},
	{Title: "Workers:", Names: []string{"work", "serve", "claim", "extend", "finish"}},
	{Title: "Queues:", Names: []string{"stats", "top", "failures", "workers", "queue", "pause", "resume", "schedule"}},
	{Title: "Database and more:", Names: []string{"adopt", "demo", "torture", "bench", "migrate", "doctor", "check", "locks", "version"}},
}

func newRoot(run *cmdline.App) *cobra.Command {
	root := cmdline.NewRoot(run, headings, commands(run))
	root.Version = readVersion().String()
	return root
}

// commands are all commands: those of the headings, and topics of the help.
func commands(run *cmdline.App) []*cobra.Command {
	a := &app{run}
	return slices.Concat(
		jobs.Commands(run), daemon.Commands(run), queues.Commands(run), top.Commands(run), database.Commands(run),
		[]*cobra.Command{newDemoCmd(a), newTortureCmd(a), newBenchCmd(a)},
		[]*cobra.Command{newVersionCmd(run), cmdline.NewExitCodesTopic(), newJSONTopic()},
	)
}
