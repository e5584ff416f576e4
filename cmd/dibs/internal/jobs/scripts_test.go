package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestClaimWritesALineOfJSONForEachJob(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("claim", "q", "-n", "5"); got != "" {
			c.T.Errorf("a queue that does not exist gives %q", got)
		}
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines", "--kind", "a")
		c.OK("enqueue", "q", "--kind", "b", "--priority", "1")
		jobs := c.Rows(c.OK("claim", "q", "-n", "2", "--worker", "w1", "--lease", "1m"))
		if len(jobs) != 2 || jobs[0]["token"] != jobs[1]["token"] || len(jobs[0]["token"].(string)) != 32 {
			c.T.Fatalf("claimed %v", jobs)
		}
		c.Has(jobs[0], object{"id": 4, "kind": "b", "state": "running", "worker": "w1", "attempt": 1, "payload": nil})
		c.Has(jobs[1], object{"id": 1, "kind": "a", "payload": "1"})
		if c.OK("claim", "q", "--kind", "b", "--kind", "c") != "" {
			c.T.Error("claimed a job of another kind")
		}
		c.Has(c.Row(c.OK("claim", "q", "--kind", "b", "--kind", "a")), object{"id": 2})

		again := c.Rows(c.OK("claim", "q", "--resume", "--worker", "w1", "-n", "10"))
		if len(again) != 2 || again[0]["token"] == jobs[0]["token"] || again[0]["attempt"] != 2.0 {
			c.T.Errorf("resumed %v", again)
		}
		c.Fails(cmdline.ExitUsage, "", []string{"claim", "q", "-n", "0"}, "n: must be 1 to 10000, got 0")
		c.Fails(cmdline.ExitUsage, "", []string{"claim", "q", "-n", "10001"}, "n: must be 1 to 10000, got 10001")
		c.Fails(cmdline.ExitUsage, "", []string{"claim", ""}, "queue: is missing")
		c.Fails(cmdline.ExitUsage, "", []string{"claim", "q", "--lease", "2d"}, "lease: must be 100ms to 24h0m0s, got 48h0m0s")
	})
}

func TestClaimWaitsForAJob(t *testing.T) {
	onEach(t, func(c *cli) {
		if got := c.OK("claim", "q", "--wait", "50ms"); got != "" {
			c.T.Errorf("claimed %q", got)
		}
		claimed := make(chan runResult, 1)
		go func() { claimed <- c.Run("", "claim", "q", "--wait", "1m") }()
		c.OK("enqueue", "q", "7")
		select {
		case r := <-claimed:
			c.Has(c.Row(r.Out), object{"payload": 7})
		case <-time.After(20 * time.Second):
			c.T.Fatal("the claim goes on waiting")
		}
	})
}

func TestFinishByFlags(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(strings.Repeat("x\n", 6), "enqueue", "q", "--lines")
		for _, test := range []struct {
			args []string
			want object
		}{
			{[]string{"--completed", "--result", `{"sent": 1}`}, object{"state": "completed", "result": map[string]any{"sent": 1}}},
			{[]string{"--retry", "--error", "down", "--delay", "1h"}, object{"state": "waiting", "attempt": 1}},
			{[]string{"--snooze", "--delay", "1h"}, object{"state": "waiting", "attempt": 1, "excused": 1}},
			{[]string{"--dead", "--error", "hopeless"}, object{"state": "dead"}},
			{[]string{"--cancelled"}, object{"state": "cancelled"}},
			{[]string{"--release"}, object{"state": "waiting", "excused": 1}},
		} {
			job := c.Row(c.OK("claim", "q"))
			id := fmt.Sprint(job["id"])
			args := append([]string{"finish", id, job["token"].(string)}, test.args...)
			c.Has(c.Row(c.OK(args...)), object{"finished": 1})
			var n int
			fmt.Sscan(id, &n)
			c.Has(c.Job(n), test.want)
			r := c.Run("", args...)
			c.Refused(r, cmdline.ExitLeaseLost, args, "lease lost on job "+id, "\n      the job runs elsewhere or has ended")
			c.Has(c.Row(r.Out), object{"finished": 0, "refused": []any{job["id"]}})
		}
		c.Has(c.Job(2), object{"errors": c.Job(2)["errors"]})
		if e := c.Job(2)["errors"].([]any)[0].(map[string]any); e["error"] != "down" {
			c.T.Errorf("the error history holds %v", e)
		}
	})
}

func TestFinishRefusesBadInput(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		job := c.Row(c.OK("claim", "q"))
		token := job["token"].(string)
		for _, test := range []struct {
			args    []string
			message string
		}{
			{[]string{"1", "abc", "--completed"}, `token: must be the 32 hexadecimal digits that the claim gave, got "abc"`},
			{[]string{"1", "", "--completed"}, "token: must be the 32 hexadecimal digits"},
			{[]string{"x", token, "--completed"}, `id: must be a job's number, got "x"`},
			{[]string{"1", token, "--completed", "--result", "{"}, "result: is not valid JSON"},
			{[]string{"1", token, "--retry", "--result", "1"}, "result: goes with completed only, not with retry"},
			{[]string{"1", token, "--snooze"}, "delay: is required for snooze"},
			{[]string{"1", token, "--retry", "--delay", "-1s"}, "delay: must not be negative"},
			{[]string{"1", token, "--dead", "--delay", "1s"}, "delay: goes with retry or snooze only, not with dead"},
		} {
			c.Fails(cmdline.ExitUsage, "", append([]string{"finish"}, test.args...), test.message)
		}
		good := fmt.Sprintf(`{"id":1,"token":%q,"ending":"completed"}`, token)
		for _, test := range []struct{ line, message string }{
			{`{"id":1`, "stdin:2: is not a JSON object with the id and the token of a job: it is cut off"},
			{`{"id":1 "token":2}`, `stdin:2: is not a JSON object with the id and the token of a job: invalid character '"' after object key:value pair, at its byte 9`},
			{`17`, "stdin:2: is not a JSON object with the id and the token of a job: it must be an object, and is a number"},
			{`{"id":"2","token":"` + token + `"}`, `: id: must be a whole number, and is a string`},
			{`{"id":2,"token":17}`, `: token: must be a string of 32 hexadecimal digits, and is a number`},
			{`{"id":2,"token":"` + strings.Repeat("n", 32) + `"}`, `: a token must be 32 hexadecimal digits, got "nnn`},
			{`{"id":2,"run_at":"today"}`, `: run_at: a time must be written as "2026-11-21T08:30:00Z", got "today"`},
			{`{"id":2,"token":"` + token + `","endng":"completed"}`, `: endng: is an unknown field`},
			{`{"id":2,"token":"` + token + `","ending":"completed","ending":"dead"}`, `: ending: is given twice`},
			{`{"id":2,"token":"` + token + `"}`, `stdin, outcome 2: ending: must be completed, retry`},
			{`{"id":2,"token":"12","ending":"completed"}`, `: a token must be 32 hexadecimal digits, got "12"`},
			{`{"id":2,"token":"` + token + `","ending":"retry","delay":"soon"}`, `: delay: "soon" is no duration`},
			{`{"id":2,"token":"` + token + `","ending":"completed","add":[{},{"delay":"soon"}]}`, `stdin:2: adds a job that cannot be read: add[1].delay: "soon" is no duration`},
			{`{"id":2,"token":"` + token + `","ending":"completed","add":[{},{"priority":-1}]}`, `stdin, outcome 2: add[1].priority: must be 0 to 32767`},
			{`{"id":2,"token":"` + token + `","ending":"dead","add":[{}]}`, `stdin, outcome 2: add: goes with completed only`},
			{good, "stdin, outcome 2: id: 1 is named twice"},
		} {
			c.Fails(cmdline.ExitUsage, good+"\n"+test.line+"\n", []string{"finish"}, test.message)
		}
		c.Has(c.Job(1), object{"state": "running"})
		c.Fails(cmdline.ExitUsage, strings.Repeat("{}\n", 10_001), []string{"finish"}, "stdin: has more than 10000 lines; split them")
	})
}

func TestFinishByLines(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n4\n", "enqueue", "q", "--lines", "--group", "g")
		c.OK("queue", "q", "--group-limit", "10")
		claimed := strings.TrimSuffix(c.OK("claim", "q", "-n", "4"), "\n")
		lines := strings.Split(claimed, "\n")
		add := func(line, more string) string { return strings.TrimSuffix(line, "}") + "," + more + "}\n" }
		c.OK("cancel", "1")
		stale := c.Rows(claimed)[3]
		c.OK("finish", "4", stale["token"].(string), "--release")
		input := add(lines[0], `"ending":"cancelled"`) + "\n" +
			add(lines[1], `"ending":"completed","result":[1,2],"add":[{"queue":"parts","payload":7}]`) +
			add(lines[2], `"ending":"retry","error":"down","delay":"5m"`) +
			add(lines[3], `"ending":"completed","add":[{"queue":"parts"}]`)
		r := c.Run(input, "finish")
		c.Refused(r, cmdline.ExitLeaseLost, []string{"finish"}, "lease lost on job 4")
		c.Has(c.Row(r.Out), object{"finished": 3, "refused": []any{4}})
		c.Has(c.Job(1), object{"state": "cancelled"})
		c.Has(c.Job(2), object{"state": "completed", "result": []any{1, 2}})
		c.Has(c.Job(3), object{"state": "waiting"})
		c.Has(c.Stats("q"), object{"scheduled": 1})
		c.Has(c.Stats("parts"), object{"waiting": 1})
		c.Has(c.Row(c.Feed("", "finish")), object{"finished": 0})
	})
}

func TestExtendLeases(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		claimed := c.OK("claim", "q", "-n", "3", "--lease", "5m")
		jobs := c.Rows(claimed)
		token := jobs[0]["token"].(string)
		if got := c.OK("extend", "1", token, "--lease", "10m"); got != "{}\n" {
			c.T.Errorf("dibs extend writes %q", got)
		}
		if before, after := jobs[0]["lease_until"].(string), c.Job(1)["lease_until"].(string); after <= before {
			c.T.Errorf("the lease ended %s, now %s", before, after)
		}
		c.OK("cancel", "2")
		c.OK("finish", "3", token, "--release")
		r := c.Run(claimed, "extend", "--lease", "1m")
		c.Refused(r, cmdline.ExitLeaseLost, []string{"extend"}, "lease lost on job 3")
		c.Has(c.Row(r.Out), object{"cancelled": []any{2}, "lost": []any{3}})
		c.Fails(cmdline.ExitUsage, "", []string{"extend", "1", token, "--lease", "1ms"}, "lease: must be 100ms to 24h0m0s")
		c.Fails(cmdline.ExitUsage, "[1]\n", []string{"extend"}, "stdin:1: ")
	})
}
