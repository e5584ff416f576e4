//go:build unix

package jobs

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// The commands that it prints show the group and put its jobs back, whatever its errors hold.
func TestFailuresAreGroupedAndPutBack(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("failures"); got != "no dead jobs\n" {
			t.Error(got)
		}
		c.FailJobs("mails", "send", "no such user: 1", "no such user: 22")
		c.FailJobs("mails", "it's a kind", "dial 10.0.0.1:25: it's $(refused) `x` \\ \"y\" at 5", "dial 10.0.0.2:25: it's $(refused) `x` \\ \"z\" at 7")
		c.FailJobs("index", "send", "no such user: 3", "\x1b[31mevil\u202e 7")
		out := c.OK("failures")
		if strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, "no such user: …") || strings.Count(out, "\n") != 1+3*4+1 || !strings.Contains(out, "\n    dial 10.0.0.2:25: it's $(refused) `x` \\ \"z\" at 7\n") {
			t.Errorf("it writes %q", out)
		}
		groups := c.Rows(c.OK("failures", "mails", "--json"))
		if len(groups) != 2 {
			t.Fatalf("groups: %v", groups)
		}
		c.Has(groups[0], object{"kind": "it's a kind", "count": 2, "queue": "mails"})
		c.Has(groups[1], object{"kind": "send", "count": 2, "part": "no such user", "fingerprint": "no such user: …"})
		var lists []string
		for _, line := range strings.Split(c.OK("failures", "mails"), "\n") {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "dibs ls ") {
				lists = append(lists, line)
			}
		}
		if len(lists) != 2 {
			t.Fatalf("it prints a command for %d groups of 2: %q", len(lists), lists)
		}
		for i, list := range lists {
			if got := c.Shell(list); strings.Count(got, "dead") != 2 || strings.Contains(got, "it's a kind") != (i == 0) {
				t.Errorf("%s: %s", list, got)
			}
			for verb, says := range map[string]string{"requeue": "would requeue 2 jobs\n", "prune": "would delete 2 jobs\n"} {
				if got := c.Shell(strings.Replace(list, " ls ", " "+verb+" ", 1) + " --dry-run"); got != says {
					t.Errorf("%s with %s: %s", list, verb, got)
				}
			}
		}
		if got := c.Shell(strings.Replace(lists[0], " ls ", " requeue ", 1)); got != "requeued 2 jobs\n" {
			t.Errorf("%s: %s", lists[0], got)
		}
		if got := c.OK("requeue", "--state", "dead", "--error", "such user"); got != "requeued 3 jobs\n" {
			t.Error(got)
		}
		if got := c.OK("ls", "--state", "dead", "--worker", "w"); strings.Count(got, "dead") != 1 {
			t.Error(got)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"failures", "-n", "0"}, "limit")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "mails", "-q", "index"}, "is named beside --queue: name one")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--finished-since", "2026-01-01"}, "state", "completed, dead or cancelled")
	})
}

// Dead jobs are deleted by what they died of, by their kind or by their ids, and all others stay.
func TestPruneSelectsAsRequeueDoes(t *testing.T) {
	onEach(t, func(c *cli) {
		c.FailJobs("mails", "send", "no such user: 1", "no such user: 2", "refused")
		c.FailJobs("mails", "other", "no such user: 3")
		c.FailJobs("index", "send", "no such user: 4", "refused")
		c.OK("enqueue", "mails", "1", "--kind", "send")
		if got := c.OK("prune", "--error", "such user", "--kind", "send", "--dry-run"); got != "would delete 3 jobs\n" {
			t.Error(got)
		}
		if got := c.OK("prune", "--error", "such user", "--kind", "send", "--older-than", "1h"); got != "deleted 0 jobs\n" {
			t.Error(got)
		}
		if got := c.OK("prune", "--error", "such user", "--kind", "send", "--queue", "mails", "--state", "dead"); got != "deleted 2 jobs\n" {
			t.Error(got)
		}
		if got := c.OK("prune", "3", "4"); got != "deleted 2 jobs\n" {
			t.Error(got)
		}
		c.Fails(cmdline.ExitNotFound, "deleted 0 jobs\n", []string{"prune", "7"}, "job 7 was not deleted: it is waiting")
		c.Fails(cmdline.ExitNotFound, "deleted 0 jobs\n", []string{"prune", "3"}, "job 3 was not deleted: there is no such job")
		c.Fails(cmdline.ExitUsage, "", []string{"prune"}, "which jobs? give ids")
		c.Fails(cmdline.ExitUsage, "", []string{"prune", "5", "--older-than", "1h"}, "either ids or --older-than")
		c.Fails(cmdline.ExitUsage, "", []string{"prune", "--state", "dead"}, "jobs of all queues")
		if got := c.OK("prune", "--worker", "w", "--json"); strings.Count(got, `{"id":`) != 2 {
			t.Error(got)
		}
		if got := c.OK("ls", "--all", "--json"); strings.Count(got, `"kind"`) != 1 {
			t.Error(got)
		}
	})
}

// A queue in which many jobs have died hides no other queue, and what was not read is said.
func TestFailuresOfOneQueueHideNoOther(t *testing.T) {
	onEach(t, func(c *cli) {
		c.FailJobs("web", "k", "web is down")
		c.FailJobs("mails", "k", "mail is down: 1", "mail is down: 2", "mail is down: 3")
		out := c.OK("failures", "-n", "2")
		for _, part := range []string{"web is down", "2+ ", "read: the last 2 of 3 dead jobs of queue mails"} {
			if !strings.Contains(out, part) {
				t.Errorf("it is without %q:\n%s", part, out)
			}
		}
		groups := c.Rows(c.OK("failures", "-n", "2", "--json"))
		if len(groups) != 2 {
			t.Fatalf("groups: %v", groups)
		}
		c.Has(groups[0], object{"queue": "mails", "count": 2, "read": 2, "dead": 3})
		c.Has(groups[1], object{"queue": "web", "count": 1, "read": 1, "dead": 1})
		if out := c.OK("failures"); strings.Contains(out, "read:") || strings.Contains(out, "+") {
			t.Errorf("all were read:\n%s", out)
		}
	})
}
