//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// failJobs has jobs of a queue and kind die, each with an error.
func (c *cli) failJobs(queue, kind string, errors ...string) {
	c.t.Helper()
	for _, text := range errors {
		c.ok("enqueue", queue, "1", "--kind", kind, "--max-attempts", "1")
		j := c.row(c.ok("claim", queue, "--worker", "w", "--json"))
		c.ok("finish", fmt.Sprint(j["id"]), j["token"].(string), "--dead", "--error", text)
	}
}

// The commands that it prints show the group and put its jobs back, whatever its errors hold.
func TestFailuresAreGroupedAndPutBack(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.ok("failures"); got != "no dead jobs\n" {
			t.Error(got)
		}
		c.failJobs("mails", "send", "no such user: 1", "no such user: 22")
		c.failJobs("mails", "it's a kind", "dial 10.0.0.1:25: it's $(refused) `x` \\ \"y\" at 5", "dial 10.0.0.2:25: it's $(refused) `x` \\ \"z\" at 7")
		c.failJobs("index", "send", "no such user: 3", "\x1b[31mevil\u202e 7")
		out := c.ok("failures")
		if strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, "no such user: …") || strings.Count(out, "\n") != 1+3*4+1 || !strings.Contains(out, "\n    dial 10.0.0.2:25: it's $(refused) `x` \\ \"z\" at 7\n") {
			t.Errorf("it writes %q", out)
		}
		groups := c.rows(c.ok("failures", "mails", "--json"))
		if len(groups) != 2 {
			t.Fatalf("groups: %v", groups)
		}
		c.has(groups[0], object{"kind": "it's a kind", "count": 2, "queue": "mails"})
		c.has(groups[1], object{"kind": "send", "count": 2, "part": "no such user", "fingerprint": "no such user: …"})
		var lists []string
		for _, line := range strings.Split(c.ok("failures", "mails"), "\n") {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "dibs ls ") {
				lists = append(lists, line)
			}
		}
		if len(lists) != 2 {
			t.Fatalf("it prints a command for %d groups of 2: %q", len(lists), lists)
		}
		for i, list := range lists {
			if got := c.shell(list); strings.Count(got, "dead") != 2 || strings.Contains(got, "it's a kind") != (i == 0) {
				t.Errorf("%s: %s", list, got)
			}
			for verb, says := range map[string]string{"requeue": "would requeue 2 jobs\n", "prune": "would delete 2 jobs\n"} {
				if got := c.shell(strings.Replace(list, " ls ", " "+verb+" ", 1) + " --dry-run"); got != says {
					t.Errorf("%s with %s: %s", list, verb, got)
				}
			}
		}
		if got := c.shell(strings.Replace(lists[0], " ls ", " requeue ", 1)); got != "requeued 2 jobs\n" {
			t.Errorf("%s: %s", lists[0], got)
		}
		if got := c.ok("requeue", "--state", "dead", "--error", "such user"); got != "requeued 3 jobs\n" {
			t.Error(got)
		}
		if got := c.ok("ls", "--state", "dead", "--worker", "w"); strings.Count(got, "dead") != 1 {
			t.Error(got)
		}
		c.fails(exitUsage, "", []string{"failures", "-n", "0"}, "limit")
		c.fails(exitUsage, "", []string{"ls", "mails", "-q", "index"}, "is named beside --queue: name one")
		c.fails(exitUsage, "", []string{"ls", "--finished-since", "2026-01-01"}, "state", "completed, dead or cancelled")
	})
}

// Dead jobs are deleted by what they died of, by their kind or by their ids, and all others stay.
func TestPruneSelectsAsRequeueDoes(t *testing.T) {
	onEach(t, func(c *cli) {
		c.failJobs("mails", "send", "no such user: 1", "no such user: 2", "refused")
		c.failJobs("mails", "other", "no such user: 3")
		c.failJobs("index", "send", "no such user: 4", "refused")
		c.ok("enqueue", "mails", "1", "--kind", "send")
		if got := c.ok("prune", "--error", "such user", "--kind", "send", "--dry-run"); got != "would delete 3 jobs\n" {
			t.Error(got)
		}
		if got := c.ok("prune", "--error", "such user", "--kind", "send", "--older-than", "1h"); got != "deleted 0 jobs\n" {
			t.Error(got)
		}
		if got := c.ok("prune", "--error", "such user", "--kind", "send", "--queue", "mails", "--state", "dead"); got != "deleted 2 jobs\n" {
			t.Error(got)
		}
		if got := c.ok("prune", "3", "4"); got != "deleted 2 jobs\n" {
			t.Error(got)
		}
		c.fails(exitNotFound, "deleted 0 jobs\n", []string{"prune", "7"}, "job 7 was not deleted: it is waiting")
		c.fails(exitNotFound, "deleted 0 jobs\n", []string{"prune", "3"}, "job 3 was not deleted: there is no such job")
		c.fails(exitUsage, "", []string{"prune"}, "which jobs? give ids")
		c.fails(exitUsage, "", []string{"prune", "5", "--older-than", "1h"}, "either ids or --older-than")
		c.fails(exitUsage, "", []string{"prune", "--state", "dead"}, "jobs of all queues")
		if got := c.ok("prune", "--worker", "w", "--json"); strings.Count(got, `{"id":`) != 2 {
			t.Error(got)
		}
		if got := c.ok("ls", "--all", "--json"); strings.Count(got, `"kind"`) != 1 {
			t.Error(got)
		}
	})
}

// A queue in which many jobs have died hides no other queue, and what was not read is said.
func TestFailuresOfOneQueueHideNoOther(t *testing.T) {
	onEach(t, func(c *cli) {
		c.failJobs("web", "k", "web is down")
		c.failJobs("mails", "k", "mail is down: 1", "mail is down: 2", "mail is down: 3")
		out := c.ok("failures", "-n", "2")
		for _, part := range []string{"web is down", "2+ ", "read: the last 2 of 3 dead jobs of queue mails"} {
			if !strings.Contains(out, part) {
				t.Errorf("it is without %q:\n%s", part, out)
			}
		}
		groups := c.rows(c.ok("failures", "-n", "2", "--json"))
		if len(groups) != 2 {
			t.Fatalf("groups: %v", groups)
		}
		c.has(groups[0], object{"queue": "mails", "count": 2, "read": 2, "dead": 3})
		c.has(groups[1], object{"queue": "web", "count": 1, "read": 1, "dead": 1})
		if out := c.ok("failures"); strings.Contains(out, "read:") || strings.Contains(out, "+") {
			t.Errorf("all were read:\n%s", out)
		}
	})
}

// shell runs a line that the command has printed, as a shell would.
func (c *cli) shell(line string) string {
	c.t.Helper()
	cmd := exec.Command("sh", "-c", strings.Replace(line, "dibs ", `"$DIBS_TEST_SELF" `, 1))
	cmd.Env = append(os.Environ(), asCommand+"=1", "DIBS_DB="+c.db)
	r := c.finished(cmd)
	if r.code != exitOK || r.err != "" {
		c.t.Errorf("%s: exit code %d: %s", line, r.code, r.err)
	}
	return r.out
}
