package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// A mistake is told in words of dibs, not of the libraries that it is built with, with what was given.
func TestMistakesAreToldInPlainWords(t *testing.T) {
	c := onSQLite(t)
	for line, words := range map[string]string{
		"schedule add x --every 5m --cron @daily":     "only one of --cron and --every can be given",
		"enqueue a --lines --csv":                     "only one of --csv and --lines can be given",
		"enqueue a 1 --priority high":                 `--priority: "high" is no whole number (0-32767, small first)`,
		"enqueue a 1 --priority 99999999999999999999": `--priority: "99999999999999999999" is too large or too small`,
		"enqueue a 1 --wait=perhaps":                  `--wait: "perhaps" is neither true nor false`,
		"queue add mail":                              "a queue is made by its first job, or by: dibs queue mail --create",
		"queue mail reports":                          `"reports" is one argument too many: write dibs queue [QUEUE]`,
		"stats -q mails":                              "the queue is an argument: dibs stats [QUEUE]...",
		"ls mails -q mails":                           `queue "mails" is named beside --queue`,
		"failures mails -q mails":                     `queue "mails" is named beside --queue`,
		"schedule next --cron 0_9_*_*_funday":         `--cron: the day of week "funday"`,
	} {
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		c.Fails(cmdline.ExitUsage, "", args, words)
	}
	none := newCLI(t, "nosuch.txt")
	none.Fails(cmdline.ExitUsage, "", []string{"stats"}, "unknown kind of database: nosuch.txt", "write sqlite:nosuch.txt")
}

func TestTheQueueOfAListMayBeAFlag(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "a")
		c.OK("enqueue", "b", "--max-attempts", "1")
		c.Has(c.Row(c.OK("ls", "-q", "b", "--json"))["jobs"].([]any)[0].(map[string]any), object{"queue": "b"})
		if got := c.OK("failures", "-q", "b"); got != "no dead jobs\n" {
			c.T.Errorf("dibs failures -q b: %s", got)
		}
	})
}

// The ticks of a spec need no database, and make none.
func TestTheTicksOfASpecNeedNoDatabase(t *testing.T) {
	c := onSQLite(t)
	if got := c.OK("schedule", "next", "--cron", "0 9 * * sunday", "-n", "2"); strings.Count(got, "09:00:00 UTC") != 2 {
		t.Errorf("dibs schedule next: %s", got)
	}
	away := newCLI(t, "postgres://127.0.0.1:1/none")
	if got := away.OK("schedule", "next", "--every", "90s"); strings.Count(got, "\n") != 5 {
		t.Errorf("dibs schedule next: %s", got)
	}
	c.Fails(cmdline.ExitSchema, "", []string{"ls"}, "there is no database file")
}

// jq refuses a whole line of JSON that has half of a surrogate pair; the payload itself stays as it was enqueued.
func TestHalfACharacterOfOneJobDoesNotSpoilAList(t *testing.T) {
	onEach(t, func(c *cli) {
		const half = `{"a":"\ud800x\ud83d\ude00"}`
		c.OK("enqueue", "q", half)
		for _, args := range [][]string{{"ls", "--json"}, {"show", "1", "--json"}} {
			got := c.OK(args...)
			if strings.Contains(got, `\ud800`) || !strings.Contains(got, `{"a":"\ufffdx\ud83d\ude00"}`) || !json.Valid([]byte(got)) {
				c.T.Errorf("dibs %q: %s", args, got)
			}
		}
		if got := c.OK("show", "1", "--payload"); strings.TrimSpace(got) != half {
			c.T.Errorf("the payload comes back as %s", got)
		}
	})
}
