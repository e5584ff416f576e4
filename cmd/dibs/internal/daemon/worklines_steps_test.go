//go:build unix

package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
)

// A program adds jobs by its answer: they are there when its job is completed, and not if it is not.
func TestWorkLinesAddsJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q", "--kind", "split")
		c.OK("enqueue", "q", "--kind", "wrong", "--max-attempts", "1")
		c.worked(`case $kind in
			split) echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":1,\"add\":[{\"queue\":\"q\",\"kind\":\"part\",\"payload\":{\"n\":12345678901234567890}},{\"queue\":\"later\",\"delay\":60}]}" ;;
			wrong) echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"add\":[{\"queue\":\"never\"},{\"queue\":\"never\",\"max_attempts\":-1}]}" ;;
			*) `+answer+` ;;
			esac`, "-c", "1")
		c.Has(c.Job(1), object{"state": "completed", "result": 1})
		c.Has(c.Job(2), object{"state": "dead"})
		if got := lastError(c.Job(2)); !strings.HasPrefix(got, "the process answered wrongly: add[1].max_attempts: ") {
			c.T.Errorf("the error is %q", got)
		}
		c.Has(c.Job(3), object{"state": "completed", "queue": "q", "kind": "part"}) // it was worked on before the queue was empty
		c.Has(c.Job(4), object{"state": "waiting", "queue": "later", "kind": "later"})
		if raw := c.OK("show", "3", "--payload"); !strings.Contains(raw, `12345678901234567890`) {
			c.T.Errorf("the payload is %s", raw)
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"show", "5"}, "no such job")
	})
}

// A program asks for the jobs that its own comes after, in pages. A question or a step that breaks a rule, or is none, is
// answered with an error alone. The worker's calls are measured.
func TestWorkLinesAnswersWhatCameBefore(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q", "1", "--kind", "part")
		c.OK("enqueue", "q", "2", "--kind", "part")
		c.OK("enqueue", "q", "--kind", "sum", "--after", "1,2", "--max-attempts", "1")
		answers := c.Write("answers", "")
		c.worked(`case $kind in
			sum)
				for ask in '{}' '{"limit":1}' '{"after":1}' '{"after":"2","limit":1000}' '{"limit":0}' '{"after":-1}' '{"after":"x"}' '{"limits":1}' '{},"step":"s"'; do
					echo "{\"id\":$id,\"token\":\"$token\",\"before\":$ask}"; IFS= read -r said; printf '%s,' "$said" >>"`+answers+`"
				done
				for step in '7' '""' '"s","valu":1'; do
					echo "{\"id\":$id,\"token\":\"$token\",\"step\":$step}"; IFS= read -r said; printf '%s,' "$said" >>"`+answers+`"
				done
				echo "{\"id\":$id,\"step\":\"s\"}"; IFS= read -r said; printf '%s,' "$said" >>"`+answers+`"
				echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":[$(cat "`+answers+`")$line]}" ;;
			*) `+answer+` ;;
			esac`, "-c", "1", "--listen", "127.0.0.1:0")
		c.Has(c.Job(3), object{"state": "completed"})
		said, _ := c.Job(3)["result"].([]any)
		if len(said) != 14 {
			c.T.Fatalf("the program read %v, and failed with %v", said, c.Job(3)["errors"])
		}
		c.Has(said[13].(map[string]any), object{"id": 3, "flow": 3})
		for i, want := range []string{
			"[1 2] <nil> <nil>", "[1] 1 <nil>", "[2] <nil> <nil>", "[] <nil> <nil>", "[] <nil> before.limit: must be 1 to 1000, got 0", "[] <nil> after: must be the next of an earlier page, or 0, got -1",
			`[] <nil> before.after: must be an id as an earlier line gave it, got "x"`, "[] <nil> before.limits: is an unknown field; the object has after, limit", `[] <nil> it has more than one of "ending", "progress", "step" and "before"`,
			"[] <nil> step: must be a string, and is a number", `[] <nil> it has neither "ending" nor "progress" nor "step" nor "before"`, "[] <nil> valu: is an unknown field; the object has id, token, ending, result, error, delay, add, progress, step, value, before", `[] <nil> "token" is missing: give the one of the job's line`,
		} {
			line := said[i].(map[string]any)
			page, answered := line["before"].(map[string]any)
			if _, failed := line["error"]; failed == answered {
				c.T.Errorf("answer %d is %v", i, line)
			}
			ids := []any{}
			jobs, _ := page["jobs"].([]any)
			for _, j := range jobs {
				job := j.(map[string]any)
				c.Has(job, object{"state": "completed", "kind": "part"})
				c.HasNot(job, "token")
				if result, _ := job["result"].([]any); len(result) != 2 || fmt.Sprint(result[1]) != fmt.Sprint(job["id"]) {
					c.T.Errorf("the result of job %v is %v", job["id"], job["result"])
				}
				ids = append(ids, job["id"])
			}
			if got := fmt.Sprint(ids, " ", page["next"], " ", line["error"]); got != want {
				c.T.Errorf("answer %d is %s, want %s", i, got, want)
			}
		}
	})
}

// A program writes steps, reads that they are written, and gets them with the job in later attempts. A step that is done stays as
// it is. The worker's calls are measured.
func TestWorkLinesKeepsSteps(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q", "--max-attempts", "3")
		c.OK("queue", "q", "--backoff", "1ms")
		confirmed := c.Write("confirmed", "")
		c.worked(`
			step() { echo "{\"id\":$id,\"token\":\"$token\",\"step\":\"$1\"$2}"; IFS= read -r said; printf '%s,' "$said" >>"`+confirmed+`"; }
			case $line in
			*'"steps":{"charge":{"a":1,"a":2},"mail":null},"payload"'*) echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":[$(cat "`+confirmed+`")$line]}" ;;
			*'"steps":{"charge":{"a":1,"a":2}},"payload"'*) step mail; step charge ',"value":3'; exit 7 ;;
			*'"steps"'*) exit 8 ;;
			*) step charge ',"value":{"a":1,"a":2}'; kill -9 $$ ;;
			esac`, "-c", "1", "--listen", "127.0.0.1:0")
		job := c.Job(1)
		c.Has(job, object{"state": "completed", "attempt": 3})
		said, _ := job["result"].([]any)
		if len(said) != 4 { // three confirmations and the line of the job
			c.T.Fatalf("the program read %v, and failed with %v", said, job["errors"])
		}
		for i, step := range []string{"charge", "mail", "charge"} {
			line := said[i].(map[string]any)
			c.Has(line, object{"id": 1, "step": step})
			c.HasNot(line, "error")
		}
		c.Has(job, object{"steps": []any{object{"name": "charge", "value": object{"a": 2}}, object{"name": "mail", "value": nil}}})
	})
}
