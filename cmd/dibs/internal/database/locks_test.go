package database

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestLocks(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n4\n5\n", "enqueue", "q", "--lines")
		before := c.OK("ls", "q", "--json")
		got := c.OK("locks", "q", "-n", "3")
		want := []string{"A claim of 3 jobs from queue q took ", " ms. Until its end it holds:", "LOCK ON", "the file", "WRITE", "waits for the end of the claim", "stats", "at once", "nothing has changed."}
		switch {
		case c.OnMariaDB():
			want = []string{
				"A claim of 3 jobs from queue q took ", "3 rows of dibs_job", "X", "1 row of dibs_turn", "S", "another claim", "at once (", "gets other jobs",
				"enqueue into the queue", "at once (", "extend another job", "at once (", "finish another job", "at once (", "nothing has changed. Nobody waits for a claim.",
			}
		case c.OnPostgres():
			want = []string{
				"A claim of 3 jobs from queue q took ", "table job", "ROW EXCLUSIVE", "3 rows of job", "FOR NO KEY UPDATE", "1 row of turn", "FOR KEY SHARE",
				"another claim", "at once (", "gets other jobs", "finish another job", "at once (", "nothing has changed. Nobody waits for a claim.",
			}
		}
		c.HasInOrder(got, want...)
		o := c.Row(c.OK("locks", "q", "--json"))
		c.Has(o, object{"queue": "q", "claimed": 5, "paused": false})
		for _, list := range []string{"locks", "others"} {
			if all, _ := o[list].([]any); len(all) == 0 {
				c.T.Errorf("no %s in %v", list, o)
			}
		}
		if after := c.OK("ls", "q", "--json"); after != before {
			c.T.Errorf("looking at the locks has changed\n%sto\n%s", before, after)
		}
		c.Has(c.Stats("q"), object{"waiting": 5, "running": 0, "claimed": 0})
	})
}

func TestLocksWithNothingToClaim(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Fails(cmdline.ExitNotFound, "", []string{"locks"}, `unknown queue "default"`, "no queues yet")
		c.Fails(cmdline.ExitUsage, "", []string{"locks", ""}, "queue: is missing")
		c.OK("enqueue", "q", "--delay", "1h")
		c.Fails(cmdline.ExitNotFound, "", []string{"locks", "p"}, `unknown queue "p"`, "known queues: q")
		c.Fails(cmdline.ExitUsage, "", []string{"locks", "q", "-n", "0"}, "n: must be 1 to 10000, got 0")
		c.HasInOrder(c.OK("locks", "q"), "no job of queue q is due yet", "dibs enqueue q")
		c.Has(c.Row(c.OK("locks", "q", "--json")), object{"claimed": 0, "locks": []any{}, "others": []any{}, "note": "no job of queue q is due yet"})
		c.OK("pause", "q")
		c.HasInOrder(c.OK("locks", "q"), "queue q is paused", "dibs resume q")
		c.OK("queue", "empty", "--create", "--concurrency", "2")
		c.HasInOrder(c.OK("locks", "empty"), "there is no job in queue empty", "dibs enqueue empty")
		c.Feed("1\n2\n", "enqueue", "g", "--lines", "--group", "a")
		c.OK("claim", "g", "--worker", "w")
		c.HasInOrder(c.OK("locks", "g"), "what is left in queue g (1 job) waits for other jobs, of its group or that it comes after", "dibs ls g")
		c.Feed("1\n2\n", "enqueue", "l", "--lines")
		c.OK("claim", "l", "--worker", "w")
		c.OK("queue", "l", "--concurrency", "1")
		c.HasInOrder(c.OK("locks", "l"), "queue l has a limit of 1 job at once, and 1 running", "dibs queue l --concurrency 2")
		c.OK("enqueue", "r")
		c.OK("claim", "r", "--worker", "w")
		c.HasInOrder(c.OK("locks", "r"), "all jobs of queue r are running", "dibs enqueue r")
		c.OK("enqueue", "late")
		c.OK("claim", "late", "--worker", "w", "--lease", "100ms")
		ended := "in queue late the leases of 1 job have ended"
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && !strings.Contains(c.OK("locks", "late"), ended); {
			time.Sleep(10 * time.Millisecond)
		}
		c.HasInOrder(c.OK("locks", "late"), ended, "dibs claim")
	})
}

func TestFormatMillisKeepsTwoDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		4 * time.Microsecond: "0.00 ms", 250 * time.Microsecond: "0.25 ms", 9940 * time.Microsecond: "9.9 ms",
		99_600 * time.Microsecond: "100 ms", 1234 * time.Millisecond: "1.2 s",
	} {
		if got := formatMillis(d); got != want {
			t.Errorf("%v is written as %q, not %q", d, got, want)
		}
	}
}
