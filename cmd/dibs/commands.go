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

// headings are those of the root's help.
var headings = []cmdline.Heading{
	{Title: "Jobs:", Names: []string{"enqueue", "ls", "show", "wait", "edit", "cancel", "requeue", "prune"}},
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
	lab := bridge(run)
	return slices.Concat(
		jobs.Commands(run), daemon.Commands(run), queues.Commands(run), top.Commands(run), database.Commands(run),
		[]*cobra.Command{lab.begin(newDemoCmd(lab)), lab.begin(newTortureCmd(lab)), lab.begin(newBenchCmd(lab))},
		[]*cobra.Command{newVersionCmd(run), cmdline.NewExitCodesTopic(), newJSONTopic()},
	)
}
