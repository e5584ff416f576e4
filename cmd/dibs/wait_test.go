package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestWaitTellsHowJobsEnded(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n4\n", "enqueue", "q", "--lines")
		waiting := make(chan runResult, 1)
		go func() { waiting <- c.run("", "wait", "1", "2", "1", "--timeout", "10m") }()
		jobs := c.rows(c.ok("claim", "q", "-n", "3"))
		end := func(i int, args ...string) {
			c.ok(append([]string{"finish", fmt.Sprint(jobs[i]["id"]), jobs[i]["token"].(string)}, args...)...)
		}
		end(0, "--completed", "--result", `{"sent":true}`)
		end(1, "--completed")
		end(2, "--dead", "--error", "hopeless\nindeed")
		if r := <-waiting; r.code != exitOK || r.err != "" || len(strings.Split(r.out, "\n")) != 3 ||
			!strings.Contains(r.out, "job 1  completed  {\"sent\":true}\n") || !strings.Contains(r.out, "job 2  completed\n") {
			c.t.Errorf("dibs wait ends with %d and writes %q %q", r.code, r.out, r.err)
		}
		c.has(c.row(c.ok("wait", "1", "--json")), object{"id": 1, "state": "completed", "result": map[string]any{"sent": true}})

		r := c.run("", "wait", "1", "3")
		c.refused(r, exitNotCompleted, []string{"wait"}, "1 job did not complete")
		c.hasInOrder(r.out, "job 3  dead  hopeless\n")
		timeout := 100 * time.Millisecond
		for r.out = ""; r.out == ""; timeout *= 2 { // a slow machine does not see in time that job 3 has ended
			r = c.run("", "wait", "3", "4", "--timeout", timeout.String())
		}
		c.refused(r, exitTimeout, []string{"wait"}, "1 job had not ended after "+(timeout/2).String()+": 4\n")
		if r.out != "job 3  dead  hopeless\n" {
			c.t.Errorf("it writes %q", r.out)
		}
		c.fails(exitNotFound, "", []string{"wait", "99"}, "job 99", "no such job")
		c.fails(exitUsage, "", []string{"wait", "1", "x"}, "id: must be a job's number")
		c.fails(exitUsage, "", []string{"wait", "1", "--timeout", "0"}, "timeout: must be longer than 0")
		c.fails(exitUsage, "", []string{"wait"}, "which job? write for example: dibs wait 17\n")

		c.feed(strings.Repeat("1\n", 12), "enqueue", "late", "--lines")
		many := c.run("", "wait", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "--timeout", "200ms")
		c.refused(many, exitTimeout, []string{"wait"}, "12 jobs had not ended after 200ms: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 2 more\n")

		c.ok("queue", "brief", "--create", "--keep-completed", "0")
		c.ok("enqueue", "brief")
		go func() { waiting <- c.run("", "wait", "17") }()
		c.fails(exitTimeout, "", []string{"wait", "17", "--timeout", "200ms"}, "1 job had not ended after 200ms: 17\n")
		brief := c.row(c.ok("claim", "brief"))
		c.ok("finish", "17", brief["token"].(string), "--completed")
		if r := <-waiting; r.code != exitNotFound || !strings.Contains(r.err, "job 17") {
			c.t.Errorf("dibs wait ends with %d: %s", r.code, r.err)
		}
	})
}

func TestEnqueueWaits(t *testing.T) {
	onEach(t, func(c *cli) {
		waiting := make(chan runResult, 1)
		go func() { waiting <- c.run("", "enqueue", "q", "7", "--wait", "--json") }()
		job := c.row(c.ok("claim", "q", "--wait", "1m"))
		c.ok("finish", fmt.Sprint(job["id"]), job["token"].(string), "--completed", "--result", "8")
		r := <-waiting
		lines := c.rows(r.out)
		if r.code != exitOK || len(lines) != 2 {
			c.t.Fatalf("it ends with %d: %s%s", r.code, r.out, r.err)
		}
		c.has(lines[0], object{"id": 1})
		c.has(lines[1], object{"id": 1, "state": "completed", "payload": 7, "result": 8})
		c.fails(exitUsage, "1\n", []string{"enqueue", "q", "--lines", "--wait"}, "--wait is for one job")
	})
}

func TestProgressIsShown(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n", "enqueue", "q", "--lines")
		jobs := c.rows(c.ok("claim", "q", "-n", "3", "--worker", "w1", "--lease", "1h"))
		token := jobs[0]["token"].(string)
		c.ok("extend", "1", token, "--progress", "43/100", "--text", "importing\tcustomers", "--lease", "1h")
		c.feed(fmt.Sprintf(`{"id":2,"token":%q,"progress":{"done":7}}`+"\n", token), "extend", "--lease", "1h")
		progress, _ := c.job(1)["progress"].(map[string]any)
		c.has(progress, object{"done": 43, "total": 100, "text": "importing\tcustomers"})
		if progress["at"] == nil {
			c.t.Errorf("no time in %v", progress)
		}
		c.hasInOrder(c.ok("show", "1"), "progress", "43 of 100 (43 %), importing", "customers", "(")
		c.hasInOrder(c.ok("show", "2"), "progress", "7", "(")
		c.hasNot(c.job(3), "progress")
		c.hasInOrder(c.ok("ls"), "on w1", "7; on w1", "43 of 100 (43 %), importing")
		c.hasInOrder(c.ok("top", "--once"), "PROGRESS", "43 of 100")
		if !strings.Contains(c.ok("ls", "--json"), `"progress":{"done":43,"total":100,`) || !strings.Contains(c.ok("top", "--once", "--json"), `"progress":{"done":43,"total":100,`) {
			c.t.Error("JSON has no progress")
		}
		for _, bad := range []string{"x", "-1", "1/x", "1/-2", "1/2/3", "/", " 1"} {
			c.fails(exitUsage, "", []string{"extend", "1", token, "--progress", bad}, "progress: must be DONE or DONE/TOTAL")
		}
		c.fails(exitUsage, "", []string{"extend", "--progress", "1"}, "--progress and --text are for one job")
		c.fails(exitUsage, fmt.Sprintf(`{"id":2,"token":%q,"progress":{"done":-7}}`+"\n", token), []string{"extend"}, "leases[0].progress.done: must not be negative")
		c.ok("finish", "1", token, "--completed")
		c.hasNot(c.job(1), "progress")
	})
}
