//go:build unix

package daemon

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
			c.Feed(strings.Repeat("x\n", 3), "enqueue", queue, "--lines")
		}
		out := c.Write("out", "")
		log := c.End(c.Work("-q", "high", "-q", "middle", "-q", "low", "--until-empty", "-c", "1", "--json", "--", "sh", "-c", `echo "$DIBS_QUEUE" >>"$0"`, out))
		text, err := os.ReadFile(out)
		if err != nil {
			c.T.Fatal(err)
		}
		if got, want := strings.Fields(string(text)), strings.Fields("high high high middle middle middle low low low"); !slices.Equal(got, want) {
			c.T.Errorf("the programs ran in the order %q", got)
		}
		var start struct {
			Queues []string
			Queue  *string
		}
		_, log, _ = strings.Cut(log, "\n") // the first line names the database
		first, _, _ := strings.Cut(log, "\n")
		if err := json.Unmarshal([]byte(first), &start); err != nil || !slices.Equal(start.Queues, []string{"high", "middle", "low"}) || start.Queue != nil {
			c.T.Errorf("the log begins with %s (%v)", first, err)
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
			c.Feed(lines, "enqueue", queue, "--lines")
		}
		c.Feed(lines, "enqueue", "grouped", "--lines", "--group", "g")
		c.OK("queue", "limited", "--concurrency", "1")
		c.OK("pause", "paused")
		w := c.Work("-q", "plain:3", "-q", "limited", "-q", "paused:5", "-q", "max:2:max=1", "-q", "grouped", "-q", "later", "--", "true")
		for _, queue := range []string{"plain", "limited", "max", "grouped"} {
			c.Await(queue, "completed", 20)
		}
		c.Has(c.Stats("paused"), object{"completed": 0, "waiting": 20})
		c.Feed(lines, "enqueue", "later", "--lines")
		c.Await("later", "completed", 20)
		c.OK("resume", "paused")
		c.Await("paused", "completed", 20)
		w.Stop()
		if log := c.End(w); !strings.Contains(log, "nobody has enqueued into this queue yet") {
			c.T.Errorf("no warning: %s", log)
		}
	})
}

// A queue that does not exist is warned of; what may be a mistyped weight gets a hint, and a
// queue that a schedule feeds no warning.
func TestWorkWarnsOfUnknownQueues(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("schedule", "add", "tick", "--every", "24h")
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
			log := c.End(c.Work(append(test.args, "--until-empty", "--", "true")...))
			c.HasInOrder(log, test.want...)
			if strings.Contains(log, "a weight is written") != (len(test.want) > 1) || strings.Contains(log, warning) != (test.want != nil) {
				c.T.Errorf("dibs work %q writes %s", test.args, log)
			}
			if strings.Contains(log, "kinds=") {
				c.T.Errorf("the log of a worker for all kinds lists some: %s", log)
			}
		}
		c.HasInOrder(c.End(c.Work("tick", "-k", "a", "-k", "b", "--until-empty", "--", "true")), `kinds="[a b]"`)
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
