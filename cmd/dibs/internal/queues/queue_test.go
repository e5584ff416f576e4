package queues

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestQueueSettings(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("queue"); !strings.HasPrefix(got, "no queues yet") {
			c.T.Errorf("dibs queue writes %q", got)
		}
		c.OK("enqueue", "emails")
		c.Has(c.Row(c.OK("queue", "emails", "--json")), object{
			"name": "emails", "paused": false, "concurrency": 0, "group_limit": 1, "strict": false, "order": "fifo", "lease": 10,
			"max_attempts": 25, "keep_completed": 86400, "keep_dead": 1209600, "keep_cancelled": 86400, "payload_limit": 1 << 20,
			"backoff": map[string]any{"base": 1, "factor": 2, "max": 3600, "jitter": 0.25},
		})
		changed := c.OK("queue", "emails", "--concurrency", "20", "--group-limit", "2", "--strict", "--order", "lifo", "--lease", "1m30s",
			"--max-attempts", "5", "--keep-completed", "0s", "--keep-dead", "30d", "--keep-cancelled", "12h", "--payload-limit", "1000",
			"--backoff", "500ms", "--backoff-jitter", "0")
		for _, want := range []string{
			"emails\n", "concurrency     20 ", "group-limit     2 ", "strict          yes ", "order           lifo ",
			"lease           1m30s ", "max-attempts    5 ", "backoff         500ms  ", "backoff-factor  2  ", "backoff-max     1h  ", "backoff-jitter  0  ",
			"job-timeout     no limit  ", "keep-completed  0s  ", "keep-dead       30d  ", "keep-cancelled  12h  ", "payload-limit   1000  ",
		} {
			if !strings.Contains(changed, want) {
				c.T.Errorf("dibs queue lacks %q:\n%s", want, changed)
			}
		}
		c.OK("queue", "emails", "--backoff-max", "1m", "--strict=false")
		c.Has(c.Row(c.OK("queue", "--json")), object{
			"concurrency": 20, "strict": false, "lease": 90, "backoff": map[string]any{"base": 0.5, "factor": 2, "max": 60, "jitter": 0},
		})
		if got := c.OK("queue"); !strings.Contains(got, "500ms-1m  0s/30d/12h\n") {
			c.T.Errorf("dibs queue writes:\n%s", got)
		}
	})
}

func TestQueueIsMadeOnlyWhenToldTo(t *testing.T) {
	onEach(t, func(c *cli) {
		args := []string{"queue", "billing", "--concurrency", "1"}
		c.Fails(cmdline.ExitNotFound, "", args, `unknown queue "billing"`, "no queues yet", "--create")
		c.OK(append(args, "--create")...)
		c.Has(c.Row(c.OK("queue", "billing", "--json")), object{"concurrency": 1})
		c.OK("queue", "billing", "--create")
		c.Has(c.Row(c.OK("queue", "billing", "--json")), object{"concurrency": 1})
		c.Fails(cmdline.ExitNotFound, "", []string{"queue", "biling"}, `unknown queue "biling"`, "known queues: billing")
	})
}

func TestQueuesAreDeleted(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "emails")
		c.OK("queue", "old", "--create")
		c.Fails(cmdline.ExitNotFound, "", []string{"queue", "rm", "old", "olt"}, `unknown queue "olt"`)
		c.Fails(cmdline.ExitFailure, "", []string{"queue", "rm", "emails"}, "job 1 has not ended: cancel such jobs", "dibs ls emails", "--ended")
		c.Has(c.Row(c.OK("queue", "rm", "old", "--json")), object{"deleted": "old"})
		c.OK("cancel", "1")
		c.Fails(cmdline.ExitFailure, "", []string{"queue", "rm", "emails"}, "it keeps ended jobs, such as job 1")
		if got := c.OK("queue", "rm", "emails", "--ended"); got != "deleted queue emails\n" {
			c.T.Errorf("dibs queue rm writes %q", got)
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"queue", "rm", "emails"}, `unknown queue "emails"`)
		c.Fails(cmdline.ExitUsage, "", []string{"queue", "rm"}, "which queue?")
		c.OK("enqueue", "emails")
		c.Has(c.Row(c.OK("queue", "--json")), object{"name": "emails"})
	})
}

func TestQueueSettingsOutOfRange(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		for _, test := range []struct{ flag, value, message string }{
			{"--concurrency", "-1", "concurrency: must be 0 (no limit) to 1000000, got -1"},
			{"--group-limit", "0", "group_limit: must be 1 to 1000000, got 0"},
			{"--order", "random", `order: must be fifo, lifo or fair, got "random"`},
			{"--lease", "1ms", "lease: must be 100ms to 24h0m0s, got 1ms"},
			{"--max-attempts", "0", "max_attempts: must be 1 to 1000000, got 0"},
			{"--backoff", "2h", "backoff.max: must be at least the base"},
			{"--backoff-jitter", "2", "backoff.jitter: must be 0 to 1, got 2"},
			{"--keep-dead", "-1s", "keep_dead: must not be negative"},
			{"--payload-limit", "1", "payload_limit: must be 2 to"},
			{"--group", "g=-1", "limit: must be 0 to 1000000, got -1"},
			{"--group", strings.Repeat("g", 10_000) + "=1", "group: is 10000 bytes, the limit is 255"},
		} {
			c.Fails(cmdline.ExitUsage, "", []string{"queue", "q", test.flag, test.value}, test.message)
		}
		c.Has(c.Row(c.OK("queue", "q", "--json")), object{"concurrency": 0, "lease": 10})
	})
}

func TestQueueLimitsOneGroup(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n4\n", "enqueue", "q", "--lines", "--group", "a=b")
		c.OK("queue", "q", "--group", "a=b=3")
		if got := c.Rows(c.OK("claim", "q", "-n", "10")); len(got) != 3 {
			c.T.Errorf("claimed %d jobs of a group that may have 3", len(got))
		}
	})
}

func TestQueueRates(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(strings.Repeat("1\n", 10), "enqueue", "q", "--lines")
		c.Has(c.Row(c.OK("queue", "q", "--rate", "2/h", "--burst", "3", "--json")), object{"rate": map[string]any{"n": 2, "per": 3600, "burst": 3}})
		if got := c.Rows(c.OK("claim", "q", "-n", "10")); len(got) != 4 {
			c.T.Errorf("claimed %d jobs, the burst and one are 4", len(got))
		}
		if got := c.OK("stats"); !strings.Contains(got, "the queue is held by rate for 30m") && !strings.Contains(got, "the queue is held by rate for 29m") {
			c.T.Errorf("dibs stats does not tell:\n%s", got)
		}
		if got := c.OK("show", "5"); !strings.Contains(got, "held by rate for ") {
			c.T.Errorf("dibs show does not tell:\n%s", got)
		}
		if got := c.OK("ls", "q", "--state", "waiting"); strings.Count(got, "  held ") != 6 {
			c.T.Errorf("dibs ls does not tell:\n%s", got)
		}
		if got := c.OK("queue", "q", "--rate", "6/90s"); !strings.Contains(got, "rate            6/1m30s ") {
			c.T.Errorf("dibs queue writes:\n%s", got)
		}
		aligned := c.OK("queue", "q", "--rate", "100/min", "--burst", "10")
		c.HasInOrder(aligned, "concurrency     no limit      jobs running", "rate            100/min       most starts over", "burst           10            how many", "payload-limit   1048576       bytes")
		for typed, shown := range map[string]string{"5/m": "5/min", "5/1m": "5/min", "5/hour": "5/h", "5/d": "5/day", "5/sec": "5/s", "5/s": "5/s"} {
			if got := c.OK("queue", "q", "--rate", typed); !strings.Contains(got, "rate            "+shown+"  ") || !strings.Contains(got, "burst           10 ") {
				c.T.Errorf("the rate %s is shown as:\n%s", typed, got)
			}
		}
		c.OK("queue", "q", "--rate", "5/s")
		c.OK("enqueue", "r")
		c.HasInOrder(c.OK("queue"), "CONCURRENCY           RATE  GROUP LIMIT", "q      no         no limit  5/s, burst 10            1", "r      no         no limit       no limit            1")
		if got := c.OK("queue", "q", "--rate", "0"); !strings.Contains(got, "rate            no limit ") {
			c.T.Errorf("dibs queue writes:\n%s", got)
		}
		c.Feed(strings.Repeat("1\n", 3), "enqueue", "g", "--lines", "--group", "a")
		c.Has(c.Row(c.OK("queue", "g", "--group-rate", "1/day", "--json")), object{"group_rate": map[string]any{"n": 1, "per": 86400, "burst": 0}})
		c.Has(c.Row(c.OK("queue", "g", "--group-burst", "2", "--json")), object{"group_rate": map[string]any{"n": 1, "per": 86400, "burst": 2}})
		if got := c.OK("queue", "g"); !strings.Contains(got, "group-rate      1/day ") || !strings.Contains(got, "group-burst     2 ") || !strings.Contains(got, "  rate            no limit ") {
			c.T.Errorf("a queue with a rate for its groups: %s", got)
		}
		c.OK("queue", "g", "--group-rate", "0")
		c.OK("queue", "g", "--group", "a", "--rate", "1/day")
		c.OK("queue", "g", "--group", "a=2", "--group", "b=7")
		if got := c.Rows(c.OK("claim", "g", "-n", "10")); len(got) != 1 {
			c.T.Errorf("claimed %d jobs of a group whose rate lets 1 start", len(got))
		}
		c.OK("claim", "g")
		got := c.OK("queue", "g")
		for _, want := range []string{"a          2     1/day  held by rate for ", "b          7  no limit\n"} {
			if !strings.Contains(got, want) {
				c.T.Errorf("dibs queue lacks %q:\n%s", want, got)
			}
		}
		for _, test := range []struct{ args, message string }{
			{"--rate 5", "must be a number of jobs per time"},
			{"--rate x/min", "must be a number of jobs per time"},
			{"--rate 5/fortnight", "fortnight"},
			{"--rate 5/1ms", "rate.per: must be 1s to 31 days, got 1ms"},
			{"--rate -5/s", "rate.n: must be 0 (no limit) or more, got -5"},
			{"--rate 5/s --burst -1", "rate.burst: must be 0 to 1000000000, got -1"},
			{"--burst 2", "rate.burst: needs a rate"},
			{"--group a", "must be GROUP=LIMIT"},
			{"--group a --rate 2000000/s", "rate.n: must be at most one per microsecond"},
		} {
			c.Fails(cmdline.ExitUsage, "", append([]string{"queue", "q"}, strings.Fields(test.args)...), test.message)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "a")
		c.OK("enqueue", "b")
		if got := c.OK("pause", "a", "b"); got != "paused a\npaused b\n" {
			c.T.Errorf("dibs pause writes %q", got)
		}
		if got := c.OK("claim", "a"); got != "" {
			c.T.Errorf("claimed from a paused queue: %s", got)
		}
		if got := c.OK("stats"); !strings.Contains(got, "a (paused)  ") {
			c.T.Errorf("dibs stats does not tell:\n%s", got)
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"resume", "a", "c"}, `unknown queue "c"`, "known queues: a, b")
		c.Has(c.Stats("a"), object{"paused": true})
		c.Has(c.Row(c.OK("resume", "a", "--json")), object{"name": "a", "paused": false})
		if got := c.Rows(c.OK("claim", "a")); len(got) != 1 {
			c.T.Errorf("claimed %v", got)
		}
	})
}

func TestStats(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("stats"); !strings.HasPrefix(got, "no queues yet") {
			c.T.Errorf("dibs stats writes %q", got)
		}
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.OK("enqueue", "q", "--delay", "1h")
		job := c.Row(c.OK("claim", "q"))
		c.OK("finish", "1", job["token"].(string), "--completed")
		c.OK("claim", "q")
		c.Has(c.Stats("q"), object{
			"queue": "q", "waiting": 2, "scheduled": 1, "blocked": 0, "running": 1, "completed": 1, "dead": 0, "cancelled": 0,
			"enqueued": 4, "claimed": 2, "succeeded": 1, "failed": 0,
		})
		lines := strings.Split(c.OK("stats"), "\n")
		want := "QUEUE  WAITING  LATER  BLOCKED  RUNNING  COMPLETED  DEAD  CANCELLED  OLDEST"
		if !strings.HasPrefix(lines[0], want) || strings.Join(strings.Fields(lines[1])[:8], " ") != "q 2 1 0 1 1 0 0" {
			c.T.Errorf("dibs stats writes:\n%s", strings.Join(lines, "\n"))
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"stats", "q", "r"}, `unknown queue "r"`, "known queues: q")
		c.Fails(cmdline.ExitNotFound, "", []string{"stats", "a\u202eb\x1b"}, `unknown queue "a\u202eb\u001b"`, "known queues: q")
		c.Fails(cmdline.ExitNotFound, "", []string{"ls", strings.Repeat("n", 10_000)}, "unknown queue", "known queues: q")
	})
}
