package jobs

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
)

func TestListJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("ls"); got != "no such jobs wait or run; for ended ones see 'dibs ls --state completed', dead or cancelled\n" {
			c.T.Errorf("an empty database lists %q", got)
		}
		if got := c.OK("ls", "--state", "completed"); got != "no such jobs\n" {
			c.T.Errorf("dibs ls --state completed writes %q", got)
		}
		c.OK("enqueue", "emails", "--kind", "welcome", "--priority", "3")
		c.OK("enqueue", "emails", "--kind", "reminder", "--delay", "10m", "--unique", "r7")
		c.OK("enqueue", "sums", "--group", "ann")
		c.OK("claim", "sums", "--worker", "w1")

		lines := strings.Split(c.OK("ls"), "\n")
		for i, want := range [][]string{
			{"ID", "STATE", "QUEUE", "KIND", "GROUP", "PRIORITY", "ATTEMPT", "WHEN", "NOTE"},
			{"3", "running", "sums", "sums", "ann", "255", "1/25", "for", "on w1"},
			{"2", "waiting", "emails", "reminder", "255", "0/25", "in 10m"},
			{"1", "waiting", "emails", "welcome", "3", "0/25", "due"},
		} {
			rest := lines[i]
			for _, word := range want {
				_, after, found := strings.Cut(rest, word)
				if !found {
					c.T.Errorf("line %d lacks %q: %s", i, word, lines[i])
				}
				rest = after
			}
		}
		for _, test := range []struct {
			args []string
			want []any
		}{
			{[]string{"emails"}, []any{2.0, 1.0}},
			{[]string{"--kind", "welcome"}, []any{1.0}},
			{[]string{"--group", "ann"}, []any{3.0}},
			{[]string{"emails", "--unique", "r7"}, []any{2.0}},
			{[]string{"sums", "--unique", "r7"}, nil},
			{[]string{"--state", "running"}, []any{3.0}},
			{[]string{"--state", "dead"}, nil},
		} {
			page := c.Row(c.OK(append([]string{"ls", "--json"}, test.args...)...))
			if got := ids(page["jobs"]); fmt.Sprint(got) != fmt.Sprint(test.want) {
				c.T.Errorf("dibs ls %v lists %v, want %v", test.args, got, test.want)
			}
		}
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--state", "sleeping"}, `state: must be waiting, blocked, running, completed, dead or cancelled, got "sleeping"`)
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--unique", "r7"}, "queue: is missing: a unique key is one of a queue")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--limit", "0"}, "limit: must be 1 to 1000, got 0")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--limit", "1001"}, "limit: must be 1 to 1000, got 1001")
	})
}

// A very long name does not move what stands right of it far away; --json has it whole.
func TestListCutsLongNames(t *testing.T) {
	c := onSQLite(t)
	fits, long := strings.Repeat("a", term.MaxName), strings.Repeat("b", 255)
	c.OK("enqueue", fits, "--kind", fits, "--group", fits)
	c.OK("enqueue", long, "--kind", long, "--group", long)
	list, _, _ := strings.Cut(c.OK("ls"), "\n\n") // without the reasons
	if cut := strings.Repeat("b", term.MaxName-1) + "… "; strings.Count(list, fits+" ") != 3 || strings.Count(list, cut) != 3 {
		t.Errorf("dibs ls writes\n%s", list)
	}
	c.Has(c.Row(c.OK("ls", long, "--json"))["jobs"].([]any)[0].(map[string]any), object{"queue": long, "kind": long, "group": long})
}

// ids returns the ids of a page's jobs.
func ids(jobs any) []any {
	var list []any
	for _, j := range jobs.([]any) {
		list = append(list, j.(map[string]any)["id"])
	}
	return list
}

func TestListPageByPage(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(strings.Repeat("x\n", 25), "enqueue", "q", "--lines")
		first := c.Row(c.OK("ls", "-n", "10", "--json"))
		second := c.Row(c.OK("ls", "-n", "10", "--json", "--after", first["next"].(string)))
		if got := ids(second["jobs"]); len(got) != 10 || got[0] != 15.0 || got[9] != 6.0 {
			c.T.Errorf("the second page holds %v", got)
		}
		pages := c.Rows(c.OK("ls", "-n", "10", "--json", "--all"))
		var all []any
		for _, page := range pages {
			all = append(all, ids(page["jobs"])...)
		}
		if len(pages) != 3 || len(all) != 25 || all[0] != 25.0 || all[24] != 1.0 {
			c.T.Errorf("%d pages hold %v", len(pages), all)
		}
		if text := c.OK("ls", "-n", "10"); !strings.Contains(text, "there are more: --after "+first["next"].(string)) {
			c.T.Errorf("the list does not say how to go on:\n%s", text)
		}
		if text := c.OK("ls", "-n", "10", "--all"); strings.Count(text, "waiting") != 25 || strings.Contains(text, "more") {
			c.T.Errorf("--all lists:\n%s", text)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--after", "nowhere"}, "after: ")
	})
}

func TestShowAJob(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "emails", `{"to":"ann"}`, "--group", "g1", "--unique", "u1", "--metadata", `{"trace":"t"}`)
		job := c.Row(c.OK("claim", "emails", "--worker", "w1"))
		c.OK("finish", "1", job["token"].(string), "--retry", "--error", "line one\nline \x1b[31mtwo", "--delay", "0s")
		text := c.OK("show", "1")
		rest := text
		for _, word := range []string{
			"job 1  ", "queue      emails\n", "attempt    1 of 25\n", "group      g1 (1 at a time)\n", "unique     u1 (until finished)\n",
			`"trace": "t"`, `"to": "ann"`, "attempt 1 failed at ", " on w1 (waited ", ", ran ", ")\n    line one\n    line \\u001b[31mtwo\n",
		} {
			_, after, found := strings.Cut(rest, word)
			if !found {
				c.T.Fatalf("dibs show lacks %q:\n%s", word, text)
			}
			rest = after
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"show", "99"}, "job 99: no such job", "dibs ls")
		for _, id := range []string{"0", "-1", "one", "99999999999999999999"} {
			c.Fails(cmdline.ExitUsage, "", []string{"show", "--", id}, "id: must be a job's number, got "+fmt.Sprintf("%q", id))
		}
	})
}

func TestCancelJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n4\n", "enqueue", "q", "--lines")
		running := c.Row(c.OK("claim", "q"))
		if got := c.OK("cancel", "1", "2"); got != "cancelled 1 job\nasked the workers of 1 running job to stop\n" {
			c.T.Errorf("dibs cancel writes %q", got)
		}
		c.Has(c.Job(1), object{"state": "running", "cancel_requested": true})
		c.Has(c.Job(2), object{"state": "cancelled"})
		got := c.Row(c.OK("extend", "1", running["token"].(string), "--lease", "30s"))
		c.Has(got, object{"cancelled": []any{1}})
		c.OK("finish", "1", running["token"].(string), "--cancelled", "--error", "told to stop")
		c.Has(c.Job(1), object{"state": "cancelled"})

		r := c.Run("", "cancel", "1", "3", "77")
		c.Refused(r, cmdline.ExitNotFound, []string{"cancel"}, "2 of 3 jobs were not cancelled (first: 1): there is no such job, or it has ended", "dibs show 1")
		if r.Out != "cancelled 1 job\n" {
			c.T.Errorf("dibs cancel writes %q", r.Out)
		}
		c.Has(c.Row(c.Feed("4\n", "cancel", "-", "--json")), object{"id": 4, "state": "cancelled"})
		c.Fails(cmdline.ExitUsage, "4\nfive\n", []string{"cancel", "-"}, `stdin:2: id: must be a job's number, got "five"`)
		c.Has(c.Stats("q"), object{"cancelled": 4, "waiting": 0, "running": 0})
	})
}

func TestCancelByWhatJobsAre(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(strings.Repeat("x\n", 2500), "enqueue", "q", "--lines", "--kind", "bulk")
		c.OK("enqueue", "q", "--kind", "other")
		c.OK("enqueue", "p", "--kind", "bulk")
		if got := c.OK("cancel", "--queue", "q", "--kind", "bulk"); got != "cancelled 2,500 jobs\n" {
			c.T.Errorf("dibs cancel writes %q", got)
		}
		c.Has(c.Stats("q"), object{"waiting": 1, "cancelled": 2500})
		c.Has(c.Stats("p"), object{"waiting": 1})
		if got := c.OK("cancel", "--state", "blocked", "--all"); got != "cancelled 0 jobs\n" {
			c.T.Errorf("dibs cancel writes %q", got)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"cancel", "--state", "dead"}, `state: must be waiting, blocked or running, got "dead"`)
		c.Fails(cmdline.ExitNotFound, "", []string{"cancel", "--queue", "Q"}, `unknown queue "Q"`, "known queues: p, q")
	})
}

func TestRequeueJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines", "--max-attempts", "1")
		for _, job := range c.Rows(c.OK("claim", "q", "-n", "2")) {
			c.OK("finish", fmt.Sprint(job["id"]), job["token"].(string), "--retry", "--error", "broken")
		}
		c.Has(c.Stats("q"), object{"dead": 2, "waiting": 1})
		if got := c.OK("requeue", "1"); got != "requeued 1 job\n" {
			c.T.Errorf("dibs requeue writes %q", got)
		}
		j := c.Job(1)
		c.Has(j, object{"state": "waiting"})
		if len(j["errors"].([]any)) != 1 {
			c.T.Errorf("the history is not kept: %v", j)
		}
		c.Has(c.Row(c.OK("requeue", "--state", "dead", "--queue", "q", "--json")), object{"id": 2})
		c.Has(c.Stats("q"), object{"dead": 0, "waiting": 3})
		if got := c.Rows(c.OK("claim", "q", "-n", "10")); len(got) != 3 {
			c.T.Errorf("claimed %v", got)
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"requeue", "3"}, "job 3 was not requeued: it is running\n")
		c.Fails(cmdline.ExitNotFound, "", []string{"requeue", "99"}, "job 99 was not requeued: there is no such job\n")
		if got := c.OK("requeue", "--state", "dead", "--all"); got != "requeued 0 jobs\n" {
			c.T.Errorf("dibs requeue writes %q", got)
		}
	})
}

func TestEditJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines", "--delay", "1h")
		if got := c.OK("edit", "1", "2", "--priority", "0"); got != "changed 2 jobs\n" {
			c.T.Errorf("dibs edit writes %q", got)
		}
		c.Has(c.Job(1), object{"priority": 0})
		c.Has(c.Job(3), object{"priority": 255})
		c.Has(c.Row(c.OK("edit", "2", "--run-at", "now", "--json")), object{"id": 2})
		c.Has(c.Row(c.OK("claim", "q", "-n", "10")), object{"id": 2, "priority": 0})
		c.OK("edit", "--queue", "q", "--run-at", "2036-06-01T12:00:00Z")
		c.Has(c.Job(3), object{"run_at": "2036-06-01T12:00:00Z"})
		c.Fails(cmdline.ExitNotFound, "", []string{"edit", "2", "--priority", "1"}, "job 2 was not changed: it is running\n")
		c.Fails(cmdline.ExitUsage, "", []string{"edit", "1", "--priority", "-1"}, "priority: must be 0 to 32767, got -1")
		c.Fails(cmdline.ExitUsage, "", []string{"edit", "1", "--run-at", "12345-01-01T00:00:00Z"}, "no time")
	})
}

func TestPruneJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.OK("enqueue", "p")
		c.OK("cancel", "1", "2", "4")
		if got := c.OK("prune", "--older-than", "1h"); got != "deleted 0 jobs\n" {
			c.T.Errorf("dibs prune writes %q", got)
		}
		c.Has(c.Row(c.OK("prune", "--older-than", "0s", "--queue", "q", "--state", "cancelled", "--json")), object{"pruned": 2})
		c.Fails(cmdline.ExitNotFound, "", []string{"show", "1"}, "no such job")
		c.Has(c.Job(4), object{"state": "cancelled"})
		c.Has(c.Stats("q"), object{"waiting": 1, "cancelled": 0})
		c.Fails(cmdline.ExitUsage, "", []string{"prune", "--older-than", "1h", "--state", "waiting"}, "state: only completed, dead or cancelled jobs can be pruned")
		c.Fails(cmdline.ExitUsage, "", []string{"prune", "--older-than", "-1h"}, "older_than: must not be negative")
		c.Fails(cmdline.ExitNotFound, "", []string{"prune", "--older-than", "1h", "--queue", "x"}, `unknown queue "x"`)
	})
}

func TestAttemptsThatDoNotCountAreTold(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]dibs.RawJob{
		"0 of 25 (claimed once, 1 not counted)":    {Attempt: 1, Excused: 1, MaxAttempts: 25},
		"1 of 25 (claimed 2 times, 1 not counted)": {Attempt: 2, Excused: 1, MaxAttempts: 25},
		"2": {Attempt: 2},
	} {
		if got := attemptText(&j); got != want {
			t.Errorf("attempt %d, %d not counted, is written %q, want %q", j.Attempt, j.Excused, got, want)
		}
	}
}

func TestColoursOnlyWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	jobs := []*dibs.RawJob{{ID: 7, State: dibs.Running, Queue: "q\x1b[31m", Kind: strings.Repeat("kind", term.MaxName/4), Worker: "w\nx"}}
	write := func(color, tty bool) string {
		var out bytes.Buffer
		a := newApp(strings.NewReader(""), &out, io.Discard)
		a.Color, a.OutTTY = color, tty
		a.writeJobs(jobs)
		a.writeJob(jobs[0], nil, "", nil)
		if err := a.writeStats([]admin.QueueStats{{Queue: "q", Dead: 1}}, &holdups.Look{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := write(false, true); strings.Contains(got, "\x1b") {
		t.Errorf("without colours it writes %q", got)
	}
	if got := write(true, true); !strings.Contains(got, string(term.Cyan)+"running") || strings.Contains(got, "q\x1b[31m") {
		t.Errorf("with colours it writes %q", got)
	}
	if got := write(false, false); !strings.Contains(got, strings.Repeat("kind", term.MaxName/4)+" ") {
		t.Errorf("names are cut where nobody needs it: %s", got)
	}
	for line := range strings.Lines(write(false, true)) {
		if len([]rune(line)) > 101 && !strings.Contains(line, "kind") {
			t.Errorf("wider than 100 columns: %s", line)
		}
	}
}
