package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestEnqueueOneJob(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("enqueue", "emails", `{"to": "ann@example.com"}`); got != "enqueued job 1 in emails\n" {
			c.T.Errorf("dibs enqueue writes %q", got)
		}
		j := c.Job(1)
		c.Has(j, object{
			"queue": "emails", "kind": "emails", "state": "waiting", "priority": 255, "attempt": 0, "max_attempts": 25,
			"payload": map[string]any{"to": "ann@example.com"},
		})
		c.HasNot(j, "group", "unique_key", "worker", "token", "errors", "result", "metadata")
		if got := c.OK("show", "1", "--payload"); got != `{"to": "ann@example.com"}` {
			c.T.Errorf("the payload comes back as %q", got)
		}

		c.OK("enqueue", "emails", `[1]`, "--kind", "welcome", "--priority", "7", "--group", "ann", "--max-attempts", "3",
			"--unique", "u1", "--unique-until", "claimed", "--metadata", `{"trace":"t1"}`, "--delay", "1h")
		j = c.Job(2)
		c.Has(j, object{
			"kind": "welcome", "priority": 7, "group": "ann", "max_attempts": 3, "unique_key": "u1", "unique_until": "claimed",
			"metadata": map[string]any{"trace": "t1"}, "payload": []any{1}, "state": "waiting",
		})
		if j["run_at"].(string) <= j["created_at"].(string) {
			c.T.Errorf("a delay of 1h gives run_at %v, created_at %v", j["run_at"], j["created_at"])
		}
		c.OK("enqueue", "reports", "--run-at", "2036-12-31T23:59:00Z")
		c.Has(c.Job(3), object{"queue": "reports", "kind": "reports", "payload": nil, "run_at": "2036-12-31T23:59:00Z"})
		c.Has(c.Row(c.Feed(" {\n} ", "enqueue", "emails", "-", "--json")), object{"id": 4})
		if got := c.OK("show", "4", "--payload"); got != " {\n} " {
			c.T.Errorf("the payload from stdin comes back as %q", got)
		}
	})
}

// The command by itself is a question, not a job for the queue default.
func TestEnqueueNeedsAQueue(t *testing.T) {
	c := onSQLite(t)
	for _, args := range [][]string{{"enqueue"}, {"enqueue", "--delay", "1h"}, {"enqueue", "--lines"}, {"enqueue", "--jsonl"}} {
		c.Fails(cmdline.ExitUsage, "1\n", args, "which queue? write for example: dibs enqueue emails")
	}
	if _, err := os.Stat(strings.TrimPrefix(c.DB, "sqlite:")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a command without a queue makes the database: %v", err)
	}
	c.Feed(`{"queue":"a"}`+"\n", "enqueue", "--jobs")
	c.Feed("@queue,x\nb,1\n", "enqueue", "--csv")
	c.OK("enqueue", "--file", c.Write("jobs.csv", "@queue,x\nb,1\n"))
	c.Has(c.Stats("a"), object{"waiting": 1})
	c.Has(c.Stats("b"), object{"waiting": 2})
}

func TestEnqueueAUniqueKeyOnce(t *testing.T) {
	onEach(t, func(c *cli) {
		c.HasNot(c.Row(c.OK("enqueue", "reports", "--unique", "daily", "--json")), "existing")
		c.Has(c.Row(c.OK("enqueue", "reports", "--unique", "daily", "--json")), object{"id": 1, "existing": true})
		if got := c.OK("enqueue", "reports", "--unique", "daily"); !strings.HasPrefix(got, "job 1 holds that unique key already") {
			c.T.Errorf("dibs enqueue writes %q", got)
		}
		c.Has(c.Stats("reports"), object{"waiting": 1})
		jobs := `{"unique_key":"daily"}` + "\n" + `{"unique_key":"weekly"}` + "\n"
		if got := c.Feed(jobs, "enqueue", "reports", "--jobs"); !strings.HasPrefix(got, "enqueued 1 job (id ") || !strings.Contains(got, "left out 1 ") {
			c.T.Errorf("dibs enqueue --jobs writes %q", got)
		}
	})
}

func TestEnqueueMeetsTheHolderOfAKey(t *testing.T) {
	onEach(t, func(c *cli) {
		says := func(want string, args ...string) {
			c.T.Helper()
			if got := c.OK(append([]string{"enqueue", "docs"}, args...)...); !strings.HasPrefix(got, want) {
				c.T.Errorf("dibs enqueue %q writes %q, want %q", args, got, want)
			}
		}
		says("enqueued job 1 ", `"a"`, "--unique", "u", "--if-held", "replace", "--delay", "1h")
		says("job 1 held that unique key: it was replaced", `"b"`, "--unique", "u", "--if-held", "replace", "--delay", "1h")
		before := c.Job(1)
		c.Has(before, object{"payload": "b", "unique_key": "u"})
		says("job 1 holds that unique key already: it was delayed", `"c"`, "--unique", "u", "--if-held", "push", "--delay", "12h", "--delay-limit", "1d")
		after := c.Job(1)
		if c.Has(after, object{"payload": "b"}); after["run_at"].(string) <= before["run_at"].(string) {
			c.T.Errorf("run_at was delayed from %v to %v", before["run_at"], after["run_at"])
		}
		c.Has(c.Row(c.OK("enqueue", "docs", "--unique", "u", "--if-held", "replace", "--json")), object{"id": 1, "existing": true, "replaced": true})
		c.Has(c.Row(c.OK("enqueue", "docs", "--unique", "u", "--if-held", "push", "--delay", "1h", "--delay-limit", "2h", "--json")),
			object{"id": 1, "existing": true, "pushed": true})

		jobs := `{"unique_key":"v","unique_for":"1h","payload":1}
{"unique_key":"v","if_held":"replace","payload":2}
{"unique_key":"v","if_held":"push","delay":3600,"delay_limit":"2h"}
{"unique_key":"v","unique_window":"day in Europe/Berlin","if_held":"keep"}
`
		// On PostgreSQL the jobs that were left out may have taken ids too.
		from := func(got, rest string) int {
			c.T.Helper()
			var id int
			if _, err := fmt.Sscanf(got, "enqueued 1 job (id %d)", &id); err != nil || !strings.Contains(got, "); "+rest) {
				c.T.Fatalf("dibs enqueue writes %q", got)
			}
			return id
		}
		second := from(c.Feed(jobs, "enqueue", "docs", "--jobs"), "replaced 1; delayed 1; left out 1 whose unique keys others hold\n")
		c.Has(c.Job(second), object{"payload": 2})
		c.OK("cancel", fmt.Sprint(second))
		says(fmt.Sprintf("job %d holds that unique key already", second), "--unique", "v", "--unique-for", "1m")
		path := c.Write("jobs.csv", "n,@unique_key,@unique_window,@unique_for,@if_held,@delay,@delay_limit\n1,w,month,,,,\n2,w,,1h,replace,,\n3,w,,,push,1h,2h\n")
		third := from(c.OK("enqueue", "docs", "-f", path), "replaced 1; delayed 1")
		c.Has(c.Job(third), object{"payload": map[string]any{"n": "2"}})
	})
}

func TestEnqueueLines(t *testing.T) {
	onEach(t, func(c *cli) {
		text := "a/b c.txt\n\n\"quoted\" <&>\r\nÄöü €\nlast, without an end"
		if got := c.Feed(text, "enqueue", "sums", "--lines"); got != "enqueued 4 jobs (ids 1 to 4)\n" {
			c.T.Errorf("dibs enqueue writes %q", got)
		}
		for i, want := range []string{`"a/b c.txt"`, `"\"quoted\" <&>"`, `"Äöü €"`, `"last, without an end"`} {
			if got := c.OK("show", fmt.Sprint(i+1), "--payload"); got != want {
				c.T.Errorf("payload %d is %s, want %s", i+1, got, want)
			}
		}
	})
}

func TestEnqueueManyLinesInOrder(t *testing.T) {
	onEach(t, func(c *cli) {
		const n = 3*chunkJobs + 7
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "%d\n", i)
		}
		rows := c.Rows(c.Feed(text.String(), "enqueue", "numbers", "--lines", "--json"))
		if len(rows) != n {
			c.T.Fatalf("got %d lines, want %d", len(rows), n)
		}
		for i, row := range rows {
			if row["line"] != float64(i+1) || i > 0 && row["id"].(float64) <= rows[i-1]["id"].(float64) {
				c.T.Fatalf("line %d gives %v after %v", i+1, row, rows[max(i-1, 0)])
			}
		}
		c.Has(c.Stats("numbers"), object{"waiting": n, "enqueued": n})
		last := int(rows[n-1]["id"].(float64))
		c.Has(c.Job(last), object{"payload": fmt.Sprint(n - 1)})
	})
}

func TestEnqueueJSONLines(t *testing.T) {
	onEach(t, func(c *cli) {
		path := c.Write("payloads.jsonl", "\ufeff{\"n\": 1}\n  [2]  \nnull\n")
		c.OK("enqueue", "q", "--file", path, "--priority", "9")
		for i, want := range []string{`{"n": 1}`, `[2]`, `null`} {
			if got := c.OK("show", fmt.Sprint(i+1), "--payload"); got != want {
				c.T.Errorf("payload %d is %q, want %q", i+1, got, want)
			}
			c.Has(c.Job(i+1), object{"priority": 9, "queue": "q"})
		}
	})
}

func TestEnqueueWholeJobs(t *testing.T) {
	onEach(t, func(c *cli) {
		jobs := `{"payload": {"n":1}}
{"queue": "other", "kind": "k", "payload": 2, "metadata": {"a":1}, "priority": 0, "delay": 90, "max_attempts": 2, "group": "g", "unique_key": "u", "unique_until": "claimed"}
{"payload": 3, "run_at": "2036-01-01T00:00:00Z"}
{"payload": 4, "delay": "15m"}
`
		c.Feed(jobs, "enqueue", "mine", "--jobs", "--priority", "5", "--delay", "1h")
		c.Has(c.Job(1), object{"queue": "mine", "kind": "mine", "priority": 5, "payload": map[string]any{"n": 1}})
		c.Has(c.Job(2), object{
			"queue": "other", "kind": "k", "payload": 2, "metadata": map[string]any{"a": 1}, "priority": 0,
			"max_attempts": 2, "group": "g", "unique_key": "u", "unique_until": "claimed",
		})
		c.Has(c.Job(3), object{"run_at": "2036-01-01T00:00:00Z"})
		c.Has(c.Stats("mine"), object{"waiting": 3, "scheduled": 3})
	})
}

func TestEnqueueCSV(t *testing.T) {
	onEach(t, func(c *cli) {
		path := c.Write("jobs.CSV", "\ufeffto,@priority,name,@queue,@group\r\n"+
			"ann@example.com,3,\"Ann \"\"A.\"\" <x>\",,g1\r\n"+
			"bob@example.com,,\"two\nlines\",vip,\r\n")
		if got := c.OK("enqueue", "emails", "-f", path, "-k", "welcome", "-p", "99"); got != "enqueued 2 jobs (ids 1 to 2)\n" {
			c.T.Errorf("dibs enqueue writes %q", got)
		}
		if got, want := c.OK("show", "1", "--payload"), `{"to":"ann@example.com","name":"Ann \"A.\" <x>"}`; got != want {
			c.T.Errorf("payload 1 is %s, want %s", got, want)
		}
		c.Has(c.Job(1), object{"queue": "emails", "kind": "welcome", "priority": 3, "group": "g1"})
		c.Has(c.Job(2), object{
			"queue": "vip", "kind": "welcome", "priority": 99,
			"payload": map[string]any{"to": "bob@example.com", "name": "two\nlines"},
		})
	})
}

func TestEnqueueNothing(t *testing.T) {
	onEach(t, func(c *cli) {
		for _, args := range [][]string{{"--lines"}, {"--jsonl"}, {"--jobs"}, {"--lines", "--partial"}} {
			if got := c.Feed("", append([]string{"enqueue", "q"}, args...)...); got != "enqueued 0 jobs\n" {
				c.T.Errorf("dibs enqueue %v writes %q", args, got)
			}
		}
		if got := c.Feed("a,b\n", "enqueue", "q", "--csv"); got != "enqueued 0 jobs\n" {
			c.T.Errorf("a CSV of a header alone gives %q", got)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "q", "--csv"}, "stdin:1: it is empty")
	})
}

// A broken line anywhere leaves the database unchanged.
func TestEnqueueABrokenLineEnqueuesNothing(t *testing.T) {
	good := strings.Repeat("{}\n", chunkJobs+500)
	onEach(t, func(c *cli) {
		for _, test := range []struct {
			flag, text string
			words      []string
		}{
			{"--jsonl", good + "{\"n\": }\n" + good, []string{"stdin:1501: payload: is not valid JSON"}},
			{"--lines", "fine\n\xff\xfe\nfine\n", []string{"stdin:2: payload: is not valid UTF-8"}},
			{"--csv", "a,b\n1,2\n3\n4,5\n", []string{"stdin:3: the row has not as many fields as the header"}},
			{"--csv", "a,b\n1,2\n\"3,4\n5,6\n", []string{"stdin:3: broken CSV up to line 4"}},
			{"--csv", "a,b\n1,x\"y\n3,4\n", []string{"stdin:2: broken CSV in column"}},
			{"--csv", "a,@priority\n1,2\n3,high\n", []string{`stdin:3: @priority: must be a whole number, got "high"`}},
			{"--csv", "a,@priority\n1,2\n3,40000\n", []string{"stdin:3: priority: must be 0 to 32767, got 40000"}},
			{"--csv", "a,@delay\n1,soon\n", []string{`stdin:2: @delay: "soon" is no duration`}},
			{"--csv", "a,@prio\n1,2\n", []string{`stdin:1: the header has a column "@prio"`, "@priority"}},
			{"--csv", "a,a\n1,2\n", []string{`stdin:1: the header has two columns "a"`}},
			{"--csv", "a,\n1,2\n", []string{"stdin:1: column 2 of the header has no name"}},
			{"--jobs", "{\"queue\":\"a\xff\"}\n", []string{"stdin:1: job: is not valid UTF-8"}},
			{"--jobs", `{"payload":1}` + "\n" + `{"paylaod":1}` + "\n", []string{"stdin:2: paylaod: is an unknown field"}},
			{"--jobs", `{"delay":-1}` + "\n", []string{"stdin:1: delay: must not be negative"}},
			{"--jobs", `{"queue":"a\u0000b"}` + "\n", []string{"stdin:1: queue: must not contain control characters"}},
			{"--jobs", `{} {}` + "\n", []string{"stdin:1: job: is not a JSON object of a job: it is followed by more"}},
			{"--jobs", `{"payload":1,"payload":2}` + "\n", []string{"stdin:1: payload: is given twice"}},
			{"--jobs", `{"payload":{"payload":1},"queue":"a","Queue":"b"}` + "\n", []string{"stdin:1: Queue: is an unknown field; the object has queue, kind, payload, "}},
			{"--jobs", `{"payload":1,"delay":"soon"}` + "\n", []string{`stdin:1: delay: "soon" is no duration`}},
			{"--jobs", `{"payload":1}` + "\n" + `{"priority":"high"}` + "\n", []string{"stdin:2: priority: must be a whole number, and is a string"}},
		} {
			args := []string{"enqueue", "q", test.flag}
			words := test.words
			if !strings.Contains(words[0], "stdin:1: the header") && !strings.Contains(words[0], "has no name") {
				words = append(words, "\n      nothing was enqueued")
			}
			c.Fails(cmdline.ExitUsage, test.text, args, words...)
		}
		if got := c.OK("stats"); !strings.HasPrefix(got, "no queues yet") {
			c.T.Errorf("something was enqueued:\n%s", got)
		}
	})
}

// The store decides on a queue's own limit, and its refusal names the line too.
func TestEnqueueAPayloadOverItsQueuesLimit(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("queue", "small", "--create", "--payload-limit", "10")
		c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "small", `"12345678901"`}, `payload: is 13 bytes, the limit of queue "small" is 10`)
		c.Fails(cmdline.ExitUsage, "ok\nthis is too long\n", []string{"enqueue", "small", "--lines"},
			`stdin:2: payload: is 18 bytes, the limit of queue "small" is 10`, "nothing was enqueued")
		c.OK("queue", "small", "--payload-limit", "5000000")
		c.OK("enqueue", "small", `"`+strings.Repeat("x", 2_000_000)+`"`)
	})
}

func TestEnqueuePartialLeavesOutBrokenLines(t *testing.T) {
	onEach(t, func(c *cli) {
		path := c.Write("mixed.jsonl", "1\n2\n{broken\n4\n\n[\n7\n")
		args := []string{"enqueue", "q", "--file", path, "--partial"}
		r := c.Run("", args...)
		c.Refused(r, cmdline.ExitPartial, args, ":3: payload: is not valid JSON", ":6: payload: is not valid JSON")
		if r.Out != "enqueued 4 jobs (ids 1 to 4); left out 2 broken lines\n" {
			c.T.Errorf("dibs enqueue writes %q", r.Out)
		}
		c.Has(c.Job(3), object{"payload": 4})
		r = c.Run("a,b\n1,2\n3\n\"4,5\n6,7\n", "enqueue", "csv", "--csv", "--partial", "--json")
		if rows := c.Rows(r.Out); r.Code != cmdline.ExitPartial || len(rows) != 1 || rows[0]["line"] != 2.0 {
			c.T.Errorf("exit code %d, %s%s", r.Code, r.Out, r.Err)
		}
	})
}
