package main

import (
	"strings"
	"testing"
)

func TestQueueSettings(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.ok("queue"); !strings.HasPrefix(got, "no queues yet") {
			c.t.Errorf("dibs queue writes %q", got)
		}
		c.ok("enqueue", "emails")
		c.has(c.row(c.ok("queue", "emails", "--json")), object{
			"name": "emails", "paused": false, "concurrency": 0, "group_limit": 1, "strict": false, "order": "fifo", "lease": 10,
			"max_attempts": 25, "keep_completed": 86400, "keep_dead": 1209600, "keep_cancelled": 86400, "payload_limit": 1 << 20,
			"backoff": map[string]any{"base": 1, "factor": 2, "max": 3600, "jitter": 0.25},
		})
		changed := c.ok("queue", "emails", "--concurrency", "20", "--group-limit", "2", "--strict", "--order", "lifo", "--lease", "1m30s",
			"--max-attempts", "5", "--keep-completed", "0s", "--keep-dead", "30d", "--keep-cancelled", "12h", "--payload-limit", "1000",
			"--backoff", "500ms", "--backoff-jitter", "0")
		for _, want := range []string{
			"emails\n", "concurrency     20 ", "group-limit     2 ", "strict          true ", "order           lifo\n",
			"lease           1m30s\n", "max-attempts    5\n", "backoff         500ms         times 2 after each attempt, up to 1h, give or take 0 %\n",
			"keep-completed  0s\n", "keep-dead       30d\n", "keep-cancelled  12h\n", "payload-limit   1,000         bytes\n",
		} {
			if !strings.Contains(changed, want) {
				c.t.Errorf("dibs queue lacks %q:\n%s", want, changed)
			}
		}
		c.ok("queue", "emails", "--backoff-max", "1m", "--strict=false")
		c.has(c.row(c.ok("queue", "--json")), object{
			"concurrency": 20, "strict": false, "lease": 90, "backoff": map[string]any{"base": 0.5, "factor": 2, "max": 60, "jitter": 0},
		})
		if got := c.ok("queue"); !strings.Contains(got, "500ms-1m  0s/30d/12h\n") {
			c.t.Errorf("dibs queue writes:\n%s", got)
		}
	})
}

func TestQueueIsMadeOnlyWhenToldTo(t *testing.T) {
	onEach(t, func(c *cli) {
		args := []string{"queue", "billing", "--concurrency", "1"}
		c.fails(exitNotFound, "", args, `unknown queue "billing"`, "no queues yet", "--create")
		c.ok(append(args, "--create")...)
		c.has(c.row(c.ok("queue", "billing", "--json")), object{"concurrency": 1})
		c.ok("queue", "billing", "--create")
		c.has(c.row(c.ok("queue", "billing", "--json")), object{"concurrency": 1})
		c.fails(exitNotFound, "", []string{"queue", "biling"}, `unknown queue "biling"`, "known queues: billing")
	})
}

func TestQueuesAreDeleted(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "emails")
		c.ok("queue", "old", "--create")
		c.fails(exitNotFound, "", []string{"queue", "rm", "old", "olt"}, `unknown queue "olt"`)
		c.fails(exitFailure, "", []string{"queue", "rm", "emails"}, "job 1 has not ended: cancel such jobs", "dibs ls emails", "--ended")
		c.has(c.row(c.ok("queue", "rm", "old", "--json")), object{"deleted": "old"})
		c.ok("cancel", "1")
		c.fails(exitFailure, "", []string{"queue", "rm", "emails"}, "it keeps ended jobs, such as job 1")
		if got := c.ok("queue", "rm", "emails", "--ended"); got != "deleted queue emails\n" {
			c.t.Errorf("dibs queue rm writes %q", got)
		}
		c.fails(exitNotFound, "", []string{"queue", "rm", "emails"}, `unknown queue "emails"`)
		c.fails(exitUsage, "", []string{"queue", "rm"}, "which queue?")
		c.ok("enqueue", "emails")
		c.has(c.row(c.ok("queue", "--json")), object{"name": "emails"})
	})
}

func TestQueueSettingsOutOfRange(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "q")
		for _, test := range []struct{ flag, value, message string }{
			{"--concurrency", "-1", "concurrency: must be 0 (no limit) to 1000000, got -1"},
			{"--group-limit", "0", "group_limit: must be 1 to 1000000, got 0"},
			{"--order", "random", `order: must be fifo or lifo, got "random"`},
			{"--lease", "1ms", "lease: must be 100ms to 24h0m0s, got 1ms"},
			{"--max-attempts", "0", "max_attempts: must be 1 to 1000000, got 0"},
			{"--backoff", "2h", "backoff.max: must be at least the base"},
			{"--backoff-jitter", "2", "backoff.jitter: must be 0 to 1, got 2"},
			{"--keep-dead", "-1s", "keep_dead: must not be negative"},
			{"--payload-limit", "1", "payload_limit: must be 2 to"},
			{"--group", "g=-1", "limit: must be 0 to 1000000, got -1"},
			{"--group", strings.Repeat("g", 10_000) + "=1", "group: is 10000 bytes, the limit is 255"},
		} {
			c.fails(exitUsage, "", []string{"queue", "q", test.flag, test.value}, test.message)
		}
		c.has(c.row(c.ok("queue", "q", "--json")), object{"concurrency": 0, "lease": 10})
	})
}

func TestQueueLimitsOneGroup(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n4\n", "enqueue", "q", "--lines", "--group", "a=b")
		c.ok("queue", "q", "--group", "a=b=3")
		if got := c.rows(c.ok("claim", "q", "-n", "10")); len(got) != 3 {
			c.t.Errorf("claimed %d jobs of a group that may have 3", len(got))
		}
	})
}

func TestQueueRates(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed(strings.Repeat("1\n", 10), "enqueue", "q", "--lines")
		c.has(c.row(c.ok("queue", "q", "--rate", "2/h", "--burst", "3", "--json")), object{"rate": map[string]any{"n": 2, "per": 3600, "burst": 3}})
		if got := c.rows(c.ok("claim", "q", "-n", "10")); len(got) != 4 {
			c.t.Errorf("claimed %d jobs, the burst and one are 4", len(got))
		}
		if got := c.ok("stats"); !strings.Contains(got, "the queue is held by rate for 30m") && !strings.Contains(got, "the queue is held by rate for 29m") {
			c.t.Errorf("dibs stats does not tell:\n%s", got)
		}
		if got := c.ok("show", "5"); !strings.Contains(got, "held by rate for ") {
			c.t.Errorf("dibs show does not tell:\n%s", got)
		}
		if got := c.ok("ls", "q", "--state", "waiting"); strings.Count(got, "  held ") != 6 {
			c.t.Errorf("dibs ls does not tell:\n%s", got)
		}
		if got := c.ok("queue", "q", "--rate", "6/90s"); !strings.Contains(got, "rate            6/1m30s, burst 3 ") {
			c.t.Errorf("dibs queue writes:\n%s", got)
		}
		aligned := c.ok("queue", "q", "--rate", "100/min", "--burst", "10")
		c.hasInOrder(aligned, "concurrency     no limit           jobs running", "rate            100/min, burst 10  of starts over", "payload-limit   1,048,576          bytes\n")
		for typed, shown := range map[string]string{"5/m": "5/min", "5/1m": "5/min", "5/hour": "5/h", "5/d": "5/day", "5/sec": "5/s", "5/s": "5/s"} {
			if got := c.ok("queue", "q", "--rate", typed); !strings.Contains(got, "rate            "+shown+", burst 10 ") {
				c.t.Errorf("the rate %s is shown as:\n%s", typed, got)
			}
		}
		c.ok("queue", "q", "--rate", "5/s")
		c.ok("enqueue", "r")
		c.hasInOrder(c.ok("queue"), "CONCURRENCY           RATE  GROUP LIMIT", "q      no         no limit  5/s, burst 10            1", "r      no         no limit       no limit            1")
		if got := c.ok("queue", "q", "--rate", "0"); !strings.Contains(got, "rate            no limit ") {
			c.t.Errorf("dibs queue writes:\n%s", got)
		}
		c.feed(strings.Repeat("1\n", 3), "enqueue", "g", "--lines", "--group", "a")
		c.has(c.row(c.ok("queue", "g", "--group-rate", "1/day", "--json")), object{"group_rate": map[string]any{"n": 1, "per": 86400, "burst": 0}})
		c.has(c.row(c.ok("queue", "g", "--group-burst", "2", "--json")), object{"group_rate": map[string]any{"n": 1, "per": 86400, "burst": 2}})
		if got := c.ok("queue", "g"); !strings.Contains(got, "group-rate      1/day, burst 2 ") || !strings.Contains(got, "  rate            no limit ") {
			c.t.Errorf("a queue with a rate for its groups: %s", got)
		}
		c.ok("queue", "g", "--group-rate", "0")
		c.ok("queue", "g", "--group", "a", "--rate", "1/day")
		c.ok("queue", "g", "--group", "a=2", "--group", "b=7")
		if got := c.rows(c.ok("claim", "g", "-n", "10")); len(got) != 1 {
			c.t.Errorf("claimed %d jobs of a group whose rate lets 1 start", len(got))
		}
		c.ok("claim", "g")
		got := c.ok("queue", "g")
		for _, want := range []string{"a          2     1/day  held by rate for ", "b          7  no limit\n"} {
			if !strings.Contains(got, want) {
				c.t.Errorf("dibs queue lacks %q:\n%s", want, got)
			}
		}
		for _, test := range []struct{ args, message string }{
			{"--rate 5", "must be a number of jobs per time"},
			{"--rate x/min", "must be a number of jobs per time"},
			{"--rate 5/fortnight", "fortnight"},
			{"--rate 5/1ms", "rate.per: must be 1s to 31 days, got 1ms"},
			{"--rate -5/s", "rate.n: must be 0 (no limit) or more, got -5"},
			{"--rate 5/s --burst -1", "rate.burst: must be 0 to 1000000000, got -1"},
			{"--burst 2", "rate.n: is 0"},
			{"--group a", "must be GROUP=LIMIT"},
			{"--group a --rate 2000000/s", "rate.n: must be at most one per microsecond"},
		} {
			c.fails(exitUsage, "", append([]string{"queue", "q"}, strings.Fields(test.args)...), test.message)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "a")
		c.ok("enqueue", "b")
		if got := c.ok("pause", "a", "b"); got != "paused a\npaused b\n" {
			c.t.Errorf("dibs pause writes %q", got)
		}
		if got := c.ok("claim", "a"); got != "" {
			c.t.Errorf("claimed from a paused queue: %s", got)
		}
		if got := c.ok("stats"); !strings.Contains(got, "a (paused)  ") {
			c.t.Errorf("dibs stats does not tell:\n%s", got)
		}
		c.fails(exitNotFound, "", []string{"resume", "a", "c"}, `unknown queue "c"`, "known queues: a, b")
		c.has(c.stats("a"), object{"paused": true})
		c.has(c.row(c.ok("resume", "a", "--json")), object{"name": "a", "paused": false})
		if got := c.rows(c.ok("claim", "a")); len(got) != 1 {
			c.t.Errorf("claimed %v", got)
		}
	})
}

func TestStats(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.ok("stats"); !strings.HasPrefix(got, "no queues yet") {
			c.t.Errorf("dibs stats writes %q", got)
		}
		c.feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.ok("enqueue", "q", "--delay", "1h")
		job := c.row(c.ok("claim", "q"))
		c.ok("finish", "1", job["token"].(string), "--completed")
		c.ok("claim", "q")
		c.has(c.stats("q"), object{
			"queue": "q", "waiting": 2, "scheduled": 1, "blocked": 0, "running": 1, "completed": 1, "dead": 0, "cancelled": 0,
			"enqueued": 4, "claimed": 2, "succeeded": 1, "failed": 0,
		})
		lines := strings.Split(c.ok("stats"), "\n")
		want := "QUEUE  WAITING  LATER  BLOCKED  RUNNING  COMPLETED  DEAD  CANCELLED  OLDEST"
		if !strings.HasPrefix(lines[0], want) || strings.Join(strings.Fields(lines[1])[:8], " ") != "q 2 1 0 1 1 0 0" {
			c.t.Errorf("dibs stats writes:\n%s", strings.Join(lines, "\n"))
		}
		c.fails(exitNotFound, "", []string{"stats", "q", "r"}, `unknown queue "r"`, "known queues: q")
		c.fails(exitNotFound, "", []string{"stats", "a\u202eb\x1b"}, `unknown queue "a\u202eb\u001b"`, "known queues: q")
		c.fails(exitNotFound, "", []string{"ls", strings.Repeat("n", 10_000)}, "unknown queue", "known queues: q")
	})
}
