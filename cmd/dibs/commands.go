package main

import "github.com/spf13/cobra"

// addCommands adds every verb under its heading of the help.
func addCommands(a *app, root *cobra.Command) {
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			c.Flags().SortFlags = false
			a.markBegun(c)
			root.AddCommand(c)
		}
	}
	add(groupJobs, newEnqueueCmd(a), a.adoptable(newLsCmd(a)), a.adoptable(newShowCmd(a)), a.adoptable(newWaitCmd(a)), ownJobsOnly(newEditCmd(a)), ownJobsOnly(newCancelCmd(a)), a.adoptable(newRequeueCmd(a)), ownJobsOnly(newPruneCmd(a)))
	add(groupScripts, a.adoptable(newWorkCmd(a)), a.adoptable(newServeCmd(a)), a.adoptable(newClaimCmd(a)), a.adoptable(newExtendCmd(a)), a.adoptable(newFinishCmd(a)))
	add(groupQueues, a.adoptable(newStatsCmd(a)), a.adoptable(newTopCmd(a)), newFailuresCmd(a), newWorkersCmd(a), newQueueCmd(a), newPauseCmd(a), newResumeCmd(a), newScheduleCmd(a))
	add(groupRest, newAdoptCmd(a), newDemoCmd(a), newTortureCmd(a), newBenchCmd(a), newMigrateCmd(a), newDoctorCmd(a), newCheckCmd(a), newLocksCmd(a), newVersionCmd(a))
	root.AddCommand(newExitCodesTopic(), newJSONTopic())
}

// otherWords are other queues' words for commands. The error for one of them names the
// command.
var otherWords = map[string][]string{
	"enqueue":  {"add", "push", "send", "insert", "publish", "put", "submit", "create", "new", "produce"},
	"ls":       {"list", "jobs", "find", "search"},
	"show":     {"status", "get", "view", "inspect", "describe", "peek", "info"},
	"edit":     {"update", "set", "change", "modify", "reschedule"},
	"cancel":   {"abort", "kill", "stop", "revoke", "remove", "rm", "delete", "del"},
	"requeue":  {"retry", "rerun", "replay", "redo", "restart"},
	"prune":    {"delete", "del", "remove", "rm", "purge", "clean", "clear", "flush", "vacuum", "drop"},
	"wait":     {"await", "join", "watch", "follow", "block"},
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

// markBegun makes a command set app.running when it begins: earlier errors are usage errors.
func (a *app) markBegun(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.running, a.applicationName = true, cmd.CommandPath()
			if a.pooler {
				if _, own := cmd.Annotations[ownPlace]; a.dbFlag == "" && !own {
					a.dbFlag = a.dbURL()
				}
				var err error
				if a.dbFlag, err = a.dbFlag.BehindPooler(); err != nil {
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
