//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
)

// Whatever an operator changes with the command is noted, once for a command, with who did it: the page of changes
// shows it. What changes nothing is not, nor what a program carries.
func TestChangesByTheCommandAreNoted(t *testing.T) {
	onEach(t, func(c *cli) {
		c.FailJobs("mails", "send", "no such user: 1", "no such user: 2", "refused")
		c.OK("enqueue", "mails", "1")
		var want []string
		does := func(note string, args ...string) {
			c.T.Helper()
			c.OK(args...)
			if note != "" {
				want = append(want, note)
			}
		}
		does("", "requeue", "--state", "dead", "--error", "such user", "--dry-run")
		does("requeue 2 jobs 1, 2: --error 'such user' --state dead", "requeue", "--state", "dead", "--error", "such user")
		does("", "requeue", "--state", "dead", "--error", "such user")
		does("cancel 2 jobs 1, 4", "cancel", "1", "4")
		does("edit 1 job 2: --priority 3", "edit", "2", "--priority", "3")
		does("prune 1 job 3", "prune", "3")
		does("prune 2 jobs: --older-than 0s --state cancelled", "prune", "--older-than", "0s", "--state", "cancelled")
		does("", "prune", "--older-than", "0s")
		does("pause 1 queue mails", "pause", "mails")
		does("resume 1 queue mails", "resume", "mails")
		does("change 1 queue mails: --concurrency 4 --group customer-7=2", "queue", "mails", "--concurrency", "4", "--group", "customer-7=2")
		does("", "queue", "mails")
		does("set 1 schedule s: --cron @yearly --payload --queue mails", "schedule", "add", "s", "--cron", "@yearly", "--queue", "mails", "--payload", `"secret"`)
		does("change 1 schedule s: --every 2h", "schedule", "set", "s", "--every", "2h")
		does("pause 1 schedule s", "schedule", "pause", "s")
		does("run now 1 schedule s", "schedule", "run", "s")
		does("delete 1 schedule s", "schedule", "rm", "s")
		db, err := open.Database(c.T.Context(), open.URL(c.DB), open.Options{})
		if err != nil {
			c.T.Fatal(err)
		}
		defer db.Close()
		list, err := db.Changes(c.T.Context(), 100)
		if err != nil || len(list) != len(want) {
			c.T.Fatalf("%d of %d changes are noted (%v): %+v", len(list), len(want), err, list)
		}
		for i, n := range list {
			if text := fmt.Sprintf("%s %d %s", n.Did, n.N, n.What); text != want[len(want)-1-i] || !strings.HasSuffix(n.Who, " (command)") || !strings.Contains(n.Who, "@") {
				c.T.Errorf("noted by %s is %q, not %q", n.Who, text, want[len(want)-1-i])
			}
		}
	})
}

// The change stands if it cannot be noted.
func TestAChangeThatCannotBeNotedStands(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "mails", "1")
		c.BySQL("alter table %saudit rename column what to other")
		r := c.Run("", "pause", "mails")
		if r.Code != cmdline.ExitOK || r.Out != "paused mails\n" || !strings.Contains(r.Err, "the change was made, but not noted: ") {
			c.T.Errorf("code %d, %q, %q", r.Code, r.Out, r.Err)
		}
		if q := c.Row(c.OK("queue", "mails", "--json")); q["paused"] != true {
			c.T.Errorf("%v", q)
		}
	})
}
