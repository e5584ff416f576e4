//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/open"
)

// Whatever an operator changes with the command is noted, once for a command, with who did it: the page of changes
// shows it. What changes nothing is not, nor what a program carries.
func TestChangesByTheCommandAreNoted(t *testing.T) {
	onEach(t, func(c *cli) {
		c.failJobs("mails", "send", "no such user: 1", "no such user: 2", "refused")
		c.ok("enqueue", "mails", "1")
		var want []string
		does := func(note string, args ...string) {
			c.t.Helper()
			c.ok(args...)
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
		db, err := open.Database(c.t.Context(), open.URL(c.db), open.Options{})
		if err != nil {
			c.t.Fatal(err)
		}
		defer db.Close()
		list, err := db.Changes(c.t.Context(), 100)
		if err != nil || len(list) != len(want) {
			c.t.Fatalf("%d of %d changes are noted (%v): %+v", len(list), len(want), err, list)
		}
		for i, n := range list {
			if text := fmt.Sprintf("%s %d %s", n.Did, n.N, n.What); text != want[len(want)-1-i] || !strings.HasSuffix(n.Who, " (command)") || !strings.Contains(n.Who, "@") {
				c.t.Errorf("noted by %s is %q, not %q", n.Who, text, want[len(want)-1-i])
			}
		}
	})
}

// The change stands if it cannot be noted.
func TestAChangeThatCannotBeNotedStands(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "mails", "1")
		c.bySQL("alter table %saudit rename column what to other")
		r := c.run("", "pause", "mails")
		if r.code != exitOK || r.out != "paused mails\n" || !strings.Contains(r.err, "the change was made, but not noted: ") {
			c.t.Errorf("code %d, %q, %q", r.code, r.out, r.err)
		}
		if q := c.row(c.ok("queue", "mails", "--json")); q["paused"] != true {
			c.t.Errorf("%v", q)
		}
	})
}
