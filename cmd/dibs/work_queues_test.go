//go:build unix

package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

func TestWorkServesQueuesInStrictOrder(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		for _, queue := range []string{"low", "middle", "high"} {
			c.feed(strings.Repeat("x\n", 3), "enqueue", queue, "--lines")
		}
		out := c.write("out", "")
		log := c.end(c.work("-q", "high", "-q", "middle", "-q", "low", "--until-empty", "-c", "1", "--json", "--", "sh", "-c", `echo "$DIBS_QUEUE" >>"$0"`, out))
		text, err := os.ReadFile(out)
		if err != nil {
			c.t.Fatal(err)
		}
		if got, want := strings.Fields(string(text)), strings.Fields("high high high middle middle middle low low low"); !slices.Equal(got, want) {
			c.t.Errorf("the programs ran in the order %q", got)
		}
		var start struct {
			Queues []string
			Queue  *string
		}
		_, log, _ = strings.Cut(log, "\n") // the first line names the database
		first, _, _ := strings.Cut(log, "\n")
		if err := json.Unmarshal([]byte(first), &start); err != nil || !slices.Equal(start.Queues, []string{"high", "middle", "low"}) || start.Queue != nil {
			c.t.Errorf("the log begins with %s (%v)", first, err)
		}
	})
}

// Queues with weights, a maximum, a pause, a limit, groups, and one that is made later, in one
// worker: every job runs.
func TestWorkServesAllSortsOfQueues(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		lines := strings.Repeat("x\n", 20)
		for _, queue := range []string{"plain", "limited", "paused", "max"} {
			c.feed(lines, "enqueue", queue, "--lines")
		}
		c.feed(lines, "enqueue", "grouped", "--lines", "--group", "g")
		c.ok("queue", "limited", "--concurrency", "1")
		c.ok("pause", "paused")
		w := c.work("-q", "plain:3", "-q", "limited", "-q", "paused:5", "-q", "max:2:max=1", "-q", "grouped", "-q", "later", "--", "true")
		for _, queue := range []string{"plain", "limited", "max", "grouped"} {
			c.await(queue, "completed", 20)
		}
		c.has(c.stats("paused"), object{"completed": 0, "waiting": 20})
		c.feed(lines, "enqueue", "later", "--lines")
		c.await("later", "completed", 20)
		c.ok("resume", "paused")
		c.await("paused", "completed", 20)
		w.stop()
		if log := c.end(w); !strings.Contains(log, "nobody has enqueued into this queue yet") {
			c.t.Errorf("no warning: %s", log)
		}
	})
}

// A queue that does not exist is warned of; what may be a mistyped weight gets a hint, and a
// queue that a schedule feeds no warning.
func TestWorkWarnsOfUnknownQueues(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.ok("schedule", "add", "tick", "--every", "24h")
		warning := "nobody has enqueued into this queue yet"
		for _, test := range []struct {
			args []string
			want []string
		}{
			{[]string{"-q", "mail:x"}, []string{warning, `named \"mail:x\"`, "--queue mail:3"}},
			{[]string{"-q", "mail:1:min=2"}, []string{warning, `named \"mail:1:min=2\"`, "--queue mail:3"}},
			{[]string{"mail:3"}, []string{warning, `named \"mail:3\"`, "--queue mail:3"}},
			{[]string{":x"}, []string{warning, "--queue NAME:3"}},
			{[]string{"mial"}, []string{warning}},
			{[]string{"tick"}, nil},
		} {
			log := c.end(c.work(append(test.args, "--until-empty", "--", "true")...))
			c.hasInOrder(log, test.want...)
			if strings.Contains(log, "a weight is written") != (len(test.want) > 1) || strings.Contains(log, warning) != (test.want != nil) {
				c.t.Errorf("dibs work %q writes %s", test.args, log)
			}
			if strings.Contains(log, "kinds=") {
				c.t.Errorf("the log of a worker for all kinds lists some: %s", log)
			}
		}
		c.hasInOrder(c.end(c.work("tick", "-k", "a", "-k", "b", "--until-empty", "--", "true")), `kinds="[a b]"`)
	})
}

func TestQueuesOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dibs.WorkQueue{
		"mail":         {Name: "mail"},
		"mail:3":       {Name: "mail", Weight: 3},
		"mail:max=2":   {Name: "mail", Max: 2},
		"mail:3:max=2": {Name: "mail", Weight: 3, Max: 2},
		"a:b":          {Name: "a:b"},
		"a:b:4":        {Name: "a:b", Weight: 4},
		"a:3:1":        {Name: "a:3", Weight: 1},
		"max=2":        {Name: "max=2"},
		":3":           {Weight: 3},
		"two\nlines:5": {Name: "two\nlines", Weight: 5},
	} {
		var q queuesFlag
		if err := q.Set(text); err != nil || len(q) != 1 || q[0] != want {
			t.Errorf("%q is %+v, %v", text, q, err)
		}
	}
}
