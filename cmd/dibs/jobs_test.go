package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
)

func TestListJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.ok("ls"); got != "no such jobs wait or run; for ended ones see 'dibs ls --state completed', dead or cancelled\n" {
			c.t.Errorf("an empty database lists %q", got)
		}
		if got := c.ok("ls", "--state", "completed"); got != "no such jobs\n" {
			c.t.Errorf("dibs ls --state completed writes %q", got)
		}
		c.ok("enqueue", "emails", "--kind", "welcome", "--priority", "3")
		c.ok("enqueue", "emails", "--kind", "reminder", "--delay", "10m", "--unique", "r7")
		c.ok("enqueue", "sums", "--group", "ann")
		c.ok("claim", "sums", "--worker", "w1")

		lines := strings.Split(c.ok("ls"), "\n")
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
					c.t.Errorf("line %d lacks %q: %s", i, word, lines[i])
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
			page := c.row(c.ok(append([]string{"ls", "--json"}, test.args...)...))
			if got := ids(page["jobs"]); fmt.Sprint(got) != fmt.Sprint(test.want) {
				c.t.Errorf("dibs ls %v lists %v, want %v", test.args, got, test.want)
			}
		}
		c.fails(exitUsage, "", []string{"ls", "--state", "sleeping"}, `state: must be waiting, blocked, running, completed, dead or cancelled, got "sleeping"`)
		c.fails(exitUsage, "", []string{"ls", "--unique", "r7"}, "queue: is missing: a unique key is one of a queue")
		c.fails(exitUsage, "", []string{"ls", "--limit", "0"}, "limit: must be 1 to 1000, got 0")
		c.fails(exitUsage, "", []string{"ls", "--limit", "1001"}, "limit: must be 1 to 1000, got 1001")
	})
}

// A very long name does not move what stands right of it far away; --json has it whole.
func TestListCutsLongNames(t *testing.T) {
	c := onSQLite(t)
	fits, long := strings.Repeat("a", maxName), strings.Repeat("b", 255)
	c.ok("enqueue", fits, "--kind", fits, "--group", fits)
	c.ok("enqueue", long, "--kind", long, "--group", long)
	list, _, _ := strings.Cut(c.ok("ls"), "\n\n") // without the reasons
	if cut := strings.Repeat("b", maxName-1) + "… "; strings.Count(list, fits+" ") != 3 || strings.Count(list, cut) != 3 {
		t.Errorf("dibs ls writes\n%s", list)
	}
	c.has(c.row(c.ok("ls", long, "--json"))["jobs"].([]any)[0].(map[string]any), object{"queue": long, "kind": long, "group": long})
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
		c.feed(strings.Repeat("x\n", 25), "enqueue", "q", "--lines")
		first := c.row(c.ok("ls", "-n", "10", "--json"))
		second := c.row(c.ok("ls", "-n", "10", "--json", "--after", first["next"].(string)))
		if got := ids(second["jobs"]); len(got) != 10 || got[0] != 15.0 || got[9] != 6.0 {
			c.t.Errorf("the second page holds %v", got)
		}
		pages := c.rows(c.ok("ls", "-n", "10", "--json", "--all"))
		var all []any
		for _, page := range pages {
			all = append(all, ids(page["jobs"])...)
		}
		if len(pages) != 3 || len(all) != 25 || all[0] != 25.0 || all[24] != 1.0 {
			c.t.Errorf("%d pages hold %v", len(pages), all)
		}
		if text := c.ok("ls", "-n", "10"); !strings.Contains(text, "there are more: --after "+first["next"].(string)) {
			c.t.Errorf("the list does not say how to go on:\n%s", text)
		}
		if text := c.ok("ls", "-n", "10", "--all"); strings.Count(text, "waiting") != 25 || strings.Contains(text, "more") {
			c.t.Errorf("--all lists:\n%s", text)
		}
		c.fails(exitUsage, "", []string{"ls", "--after", "nowhere"}, "after: ")
	})
}

func TestShowAJob(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "emails", `{"to":"ann"}`, "--group", "g1", "--unique", "u1", "--metadata", `{"trace":"t"}`)
		job := c.row(c.ok("claim", "emails", "--worker", "w1"))
		c.ok("finish", "1", job["token"].(string), "--retry", "--error", "line one\nline \x1b[31mtwo", "--delay", "0s")
		text := c.ok("show", "1")
		rest := text
		for _, word := range []string{
			"job 1  ", "queue      emails\n", "attempt    1 of 25\n", "group      g1 (1 at a time)\n", "unique     u1 (until finished)\n",
			`"trace": "t"`, `"to": "ann"`, "attempt 1 failed at ", " on w1 (waited ", ", ran ", ")\n    line one\n    line \\u001b[31mtwo\n",
		} {
			_, after, found := strings.Cut(rest, word)
			if !found {
				c.t.Fatalf("dibs show lacks %q:\n%s", word, text)
			}
			rest = after
		}
		c.fails(exitNotFound, "", []string{"show", "99"}, "job 99: no such job", "dibs ls")
		for _, id := range []string{"0", "-1", "one", "99999999999999999999"} {
			c.fails(exitUsage, "", []string{"show", "--", id}, "id: must be a job's number, got "+fmt.Sprintf("%q", id))
		}
	})
}

func TestCancelJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n4\n", "enqueue", "q", "--lines")
		running := c.row(c.ok("claim", "q"))
		if got := c.ok("cancel", "1", "2"); got != "cancelled 1 job\nasked the workers of 1 running job to stop\n" {
			c.t.Errorf("dibs cancel writes %q", got)
		}
		c.has(c.job(1), object{"state": "running", "cancel_requested": true})
		c.has(c.job(2), object{"state": "cancelled"})
		got := c.row(c.ok("extend", "1", running["token"].(string), "--lease", "30s"))
		c.has(got, object{"cancelled": []any{1}})
		c.ok("finish", "1", running["token"].(string), "--cancelled", "--error", "told to stop")
		c.has(c.job(1), object{"state": "cancelled"})

		r := c.run("", "cancel", "1", "3", "77")
		c.refused(r, exitNotFound, []string{"cancel"}, "2 of 3 jobs were not cancelled (first: 1): there is no such job, or it has ended", "dibs show 1")
		if r.out != "cancelled 1 job\n" {
			c.t.Errorf("dibs cancel writes %q", r.out)
		}
		c.has(c.row(c.feed("4\n", "cancel", "-", "--json")), object{"id": 4, "state": "cancelled"})
		c.fails(exitUsage, "4\nfive\n", []string{"cancel", "-"}, `stdin:2: id: must be a job's number, got "five"`)
		c.has(c.stats("q"), object{"cancelled": 4, "waiting": 0, "running": 0})
	})
}

func TestCancelByWhatJobsAre(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed(strings.Repeat("x\n", 2500), "enqueue", "q", "--lines", "--kind", "bulk")
		c.ok("enqueue", "q", "--kind", "other")
		c.ok("enqueue", "p", "--kind", "bulk")
		if got := c.ok("cancel", "--queue", "q", "--kind", "bulk"); got != "cancelled 2,500 jobs\n" {
			c.t.Errorf("dibs cancel writes %q", got)
		}
		c.has(c.stats("q"), object{"waiting": 1, "cancelled": 2500})
		c.has(c.stats("p"), object{"waiting": 1})
		if got := c.ok("cancel", "--state", "blocked", "--all"); got != "cancelled 0 jobs\n" {
			c.t.Errorf("dibs cancel writes %q", got)
		}
		c.fails(exitUsage, "", []string{"cancel", "--state", "dead"}, `state: must be waiting, blocked or running, got "dead"`)
		c.fails(exitNotFound, "", []string{"cancel", "--queue", "Q"}, `unknown queue "Q"`, "known queues: p, q")
	})
}

func TestRequeueJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n", "enqueue", "q", "--lines", "--max-attempts", "1")
		for _, job := range c.rows(c.ok("claim", "q", "-n", "2")) {
			c.ok("finish", fmt.Sprint(job["id"]), job["token"].(string), "--retry", "--error", "broken")
		}
		c.has(c.stats("q"), object{"dead": 2, "waiting": 1})
		if got := c.ok("requeue", "1"); got != "requeued 1 job\n" {
			c.t.Errorf("dibs requeue writes %q", got)
		}
		j := c.job(1)
		c.has(j, object{"state": "waiting"})
		if len(j["errors"].([]any)) != 1 {
			c.t.Errorf("the history is not kept: %v", j)
		}
		c.has(c.row(c.ok("requeue", "--state", "dead", "--queue", "q", "--json")), object{"id": 2})
		c.has(c.stats("q"), object{"dead": 0, "waiting": 3})
		if got := c.rows(c.ok("claim", "q", "-n", "10")); len(got) != 3 {
			c.t.Errorf("claimed %v", got)
		}
		c.fails(exitNotFound, "", []string{"requeue", "3"}, "job 3 was not requeued: it is running\n")
		c.fails(exitNotFound, "", []string{"requeue", "99"}, "job 99 was not requeued: there is no such job\n")
		if got := c.ok("requeue", "--state", "dead", "--all"); got != "requeued 0 jobs\n" {
			c.t.Errorf("dibs requeue writes %q", got)
		}
	})
}

func TestEditJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n", "enqueue", "q", "--lines", "--delay", "1h")
		if got := c.ok("edit", "1", "2", "--priority", "0"); got != "changed 2 jobs\n" {
			c.t.Errorf("dibs edit writes %q", got)
		}
		c.has(c.job(1), object{"priority": 0})
		c.has(c.job(3), object{"priority": 255})
		c.has(c.row(c.ok("edit", "2", "--run-at", "now", "--json")), object{"id": 2})
		c.has(c.row(c.ok("claim", "q", "-n", "10")), object{"id": 2, "priority": 0})
		c.ok("edit", "--queue", "q", "--run-at", "2036-06-01T12:00:00Z")
		c.has(c.job(3), object{"run_at": "2036-06-01T12:00:00Z"})
		c.fails(exitNotFound, "", []string{"edit", "2", "--priority", "1"}, "job 2 was not changed: it is running\n")
		c.fails(exitUsage, "", []string{"edit", "1", "--priority", "-1"}, "priority: must be 0 to 32767, got -1")
		c.fails(exitUsage, "", []string{"edit", "1", "--run-at", "12345-01-01T00:00:00Z"}, "no time")
	})
}

func TestPruneJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.ok("enqueue", "p")
		c.ok("cancel", "1", "2", "4")
		if got := c.ok("prune", "--older-than", "1h"); got != "deleted 0 jobs\n" {
			c.t.Errorf("dibs prune writes %q", got)
		}
		c.has(c.row(c.ok("prune", "--older-than", "0s", "--queue", "q", "--state", "cancelled", "--json")), object{"pruned": 2})
		c.fails(exitNotFound, "", []string{"show", "1"}, "no such job")
		c.has(c.job(4), object{"state": "cancelled"})
		c.has(c.stats("q"), object{"waiting": 1, "cancelled": 0})
		c.fails(exitUsage, "", []string{"prune", "--older-than", "1h", "--state", "waiting"}, "state: only completed, dead or cancelled jobs can be pruned")
		c.fails(exitUsage, "", []string{"prune", "--older-than", "-1h"}, "older_than: must not be negative")
		c.fails(exitNotFound, "", []string{"prune", "--older-than", "1h", "--queue", "x"}, `unknown queue "x"`)
	})
}

func TestCheckReportsFindings(t *testing.T) {
	c := onSQLite(t)
	for _, json := range []bool{false, true} {
		var out, err strings.Builder
		a := newApp(strings.NewReader(""), &out, &err)
		a.json = json
		code := a.fail(t.Context(), a.report(nil, []string{"job 1 is lost", "job 2 is too"}))
		want := "job 1 is lost\njob 2 is too\n"
		if json {
			want = `{"findings":["job 1 is lost","job 2 is too"]}` + "\n"
		}
		if code != exitFailure || out.String() != want || err.String() != "" {
			t.Errorf("exit code %d, %q, %q", code, out.String(), err.String())
		}
	}
	c.ok("enqueue", "q")
	if got := c.ok("check", "--json"); got != `{"findings":[]}`+"\n" {
		t.Errorf("dibs check writes %q", got)
	}
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
