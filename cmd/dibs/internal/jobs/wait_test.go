package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestWaitTellsHowJobsEnded(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n4\n", "enqueue", "q", "--lines")
		waiting := make(chan runResult, 1)
		go func() { waiting <- c.Run("", "wait", "1", "2", "1", "--timeout", "10m") }()
		jobs := c.Rows(c.OK("claim", "q", "-n", "3"))
		end := func(i int, args ...string) {
			c.OK(append([]string{"finish", fmt.Sprint(jobs[i]["id"]), jobs[i]["token"].(string)}, args...)...)
		}
		end(0, "--completed", "--result", `{"sent":true}`)
		end(1, "--completed")
		end(2, "--dead", "--error", "hopeless\nindeed")
		if r := <-waiting; r.Code != cmdline.ExitOK || r.Err != "" || len(strings.Split(r.Out, "\n")) != 3 ||
			!strings.Contains(r.Out, "job 1  completed  {\"sent\":true}\n") || !strings.Contains(r.Out, "job 2  completed\n") {
			c.T.Errorf("dibs wait ends with %d and writes %q %q", r.Code, r.Out, r.Err)
		}
		c.Has(c.Row(c.OK("wait", "1", "--json")), object{"id": 1, "state": "completed", "result": map[string]any{"sent": true}})

		r := c.Run("", "wait", "1", "3")
		c.Refused(r, cmdline.ExitNotCompleted, []string{"wait"}, "1 job did not complete")
		c.HasInOrder(r.Out, "job 3  dead  hopeless\n")
		timeout := 100 * time.Millisecond
		for r.Out = ""; r.Out == ""; timeout *= 2 { // a slow machine does not see in time that job 3 has ended
			r = c.Run("", "wait", "3", "4", "--timeout", timeout.String())
		}
		c.Refused(r, cmdline.ExitTimeout, []string{"wait"}, "1 job had not ended after "+(timeout/2).String()+": 4\n")
		if r.Out != "job 3  dead  hopeless\n" {
			c.T.Errorf("it writes %q", r.Out)
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"wait", "99"}, "job 99", "no such job")
		c.Fails(cmdline.ExitUsage, "", []string{"wait", "1", "x"}, "id: must be a job's number")
		c.Fails(cmdline.ExitUsage, "", []string{"wait", "1", "--timeout", "0"}, "timeout: must be longer than 0")
		c.Fails(cmdline.ExitUsage, "", []string{"wait"}, "which job? write for example: dibs wait 17\n")

		c.Feed(strings.Repeat("1\n", 12), "enqueue", "late", "--lines")
		many := c.Run("", "wait", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "--timeout", "200ms")
		c.Refused(many, cmdline.ExitTimeout, []string{"wait"}, "12 jobs had not ended after 200ms: 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 2 more\n")

		c.OK("queue", "brief", "--create", "--keep-completed", "0")
		c.OK("enqueue", "brief")
		go func() { waiting <- c.Run("", "wait", "17") }()
		c.Fails(cmdline.ExitTimeout, "", []string{"wait", "17", "--timeout", "200ms"}, "1 job had not ended after 200ms: 17\n")
		brief := c.Row(c.OK("claim", "brief"))
		c.OK("finish", "17", brief["token"].(string), "--completed")
		if r := <-waiting; r.Code != cmdline.ExitNotFound || !strings.Contains(r.Err, "job 17") {
			c.T.Errorf("dibs wait ends with %d: %s", r.Code, r.Err)
		}
	})
}

func TestEnqueueWaits(t *testing.T) {
	onEach(t, func(c *cli) {
		waiting := make(chan runResult, 1)
		go func() { waiting <- c.Run("", "enqueue", "q", "7", "--wait", "--json") }()
		job := c.Row(c.OK("claim", "q", "--wait", "1m"))
		c.OK("finish", fmt.Sprint(job["id"]), job["token"].(string), "--completed", "--result", "8")
		r := <-waiting
		lines := c.Rows(r.Out)
		if r.Code != cmdline.ExitOK || len(lines) != 2 {
			c.T.Fatalf("it ends with %d: %s%s", r.Code, r.Out, r.Err)
		}
		c.Has(lines[0], object{"id": 1})
		c.Has(lines[1], object{"id": 1, "state": "completed", "payload": 7, "result": 8})
		c.Fails(cmdline.ExitUsage, "1\n", []string{"enqueue", "q", "--lines", "--wait"}, "--wait is for one job")
	})
}
