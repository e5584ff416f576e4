package queues

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

func TestSchedules(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "other")
		if got := c.OK("schedule", "ls"); !strings.HasPrefix(got, "no schedules yet") {
			c.T.Errorf("dibs schedule ls writes %q", got)
		}
		c.OK("schedule", "add", "tidy", "--every", "90s")
		added := c.OK("schedule", "add", "report", "--cron", "0 9 * * mon-fri", "--zone", "Europe/Berlin", "--queue", "reports", "--payload", `{"to":"ann"}`,
			"--missed", "all", "--jitter", "30s", "--skip-overlap", "--priority", "7")
		for _, want := range []string{"report\n", "0 9 * * mon-fri (Europe/Berlin)", "queue      reports", "kind       reports", `"to": "ann"`, "all, 100 at most", "jitter     30s", "no job while", "09:00:00 CE"} {
			if !strings.Contains(added, want) {
				c.T.Errorf("dibs schedule add lacks %q:\n%s", want, added)
			}
		}
		c.Has(c.Row(c.OK("schedule", "show", "tidy", "--json")), object{
			"name": "tidy", "spec": "every 1m30s", "zone": "UTC", "queue": "tidy", "kind": "tidy", "payload": nil, "missed": "once", "paused": false, "jitter": 0,
		})
		if rows := c.Rows(c.OK("schedule", "ls", "--json")); len(rows) != 2 || rows[0]["name"] != "report" || rows[0]["jitter"] != 30.0 {
			c.T.Errorf("dibs schedule ls --json: %v", rows)
		}
		lines := strings.Split(c.OK("schedule", "ls"), "\n")
		if !strings.HasPrefix(lines[0], "SCHEDULE  SPEC") || !strings.Contains(lines[2], "tidy") || !strings.Contains(lines[2], "every 1m30s") {
			c.T.Errorf("dibs schedule ls writes:\n%s", strings.Join(lines, "\n"))
		}
		c.Fails(cmdline.ExitUsage, "", []string{"schedule", "add", "tidy", "--every", "1m"}, `name: schedule "tidy" exists already`, "dibs schedule set")
		c.OK("schedule", "set", "tidy", "--every", "2m", "--payload", "5")
		c.Has(c.Row(c.OK("schedule", "show", "tidy", "--json")), object{"spec": "every 2m", "payload": 5})
		c.OK("schedule", "set", "tidy", "--start", "2100-01-01T00:00:00Z", "--end", "2100-01-02T00:00:00Z")
		c.Has(c.Row(c.OK("schedule", "show", "tidy", "--json")), object{"start": "2100-01-01T00:00:00Z", "end": "2100-01-02T00:00:00Z", "next": "2100-01-01T00:00:00Z"})
		c.OK("schedule", "set", "tidy", "--end", "")
		c.OK("schedule", "set", "tidy", "--start", "")
		c.HasNot(c.Row(c.OK("schedule", "show", "tidy", "--json")), "start", "end")
		next := c.Rows(c.OK("schedule", "next", "tidy", "--start", "2100-01-01T00:00:00Z", "--end", "2100-01-01T00:02:00Z", "--json"))
		if len(next) != 2 || next[0]["tick"] != "2100-01-01T00:00:00Z" || next[1]["tick"] != "2100-01-01T00:02:00Z" {
			c.T.Errorf("dibs schedule next with a start and an end writes %v", next)
		}
		c.HasNot(c.Row(c.OK("schedule", "show", "tidy", "--json")), "start", "end")
		c.OK("schedule", "set", "report", "--missed", "skip")
		c.Has(c.Row(c.OK("schedule", "show", "report", "--json")), object{"missed": "skip", "skip_overlap": true})

		if got := strings.Split(strings.TrimSpace(c.OK("schedule", "next", "report", "-n", "4")), "\n"); len(got) != 4 || !strings.Contains(got[0], " 09:00:00 CE") {
			c.T.Errorf("dibs schedule next writes %q", got)
		}
		if got := c.Rows(c.OK("schedule", "next", "--cron", "@yearly", "--json", "-n", "2")); len(got) != 2 || got[0]["tick"] != fmt.Sprintf("%d-01-01T00:00:00Z", time.Now().UTC().Year()+1) {
			c.T.Errorf("dibs schedule next --cron writes %v", got)
		}
		if got := c.OK("schedule", "pause", "tidy"); got != "paused tidy\n" {
			c.T.Errorf("dibs schedule pause writes %q", got)
		}
		if got := c.OK("schedule", "ls"); !strings.Contains(got, "paused") {
			c.T.Errorf("dibs schedule ls does not tell:\n%s", got)
		}
		job := c.Row(c.OK("schedule", "run", "tidy", "--json"))
		c.Has(c.Row(c.OK("claim", "tidy")), object{"id": job["id"], "payload": 5, "schedule": "tidy"})
		if got := c.OK("schedule", "resume", "tidy"); !strings.HasPrefix(got, "resumed tidy; next tick 20") {
			c.T.Errorf("dibs schedule resume writes %q", got)
		}
		if got := c.OK("schedule", "rm", "tidy", "report"); got != "deleted schedule tidy\ndeleted schedule report\n" {
			c.T.Errorf("dibs schedule rm writes %q", got)
		}
	})
}

func TestMistakesWithSchedules(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Fails(cmdline.ExitUsage, "", []string{"schedule", "lss"}, `unknown command "lss"`)
		c.OK("schedule", "add", "kept", "--every", "24h")
		c.Fails(cmdline.ExitNotFound, "", []string{"schedule", "rm", "kept", "x"}, `unknown schedule "x"`)
		c.Has(c.Row(c.OK("schedule", "ls", "--json")), object{"name": "kept", "spec": "every 24h"})
		c.OK("schedule", "rm", "kept")
		for _, args := range [][]string{{"show", "x"}, {"set", "x"}, {"pause", "x"}, {"resume", "x"}, {"run", "x"}, {"rm", "x"}, {"next", "x"}} {
			verb := args[0]
			if other, ok := map[string]string{"rm": "delete", "next": "next ticks of"}[verb]; ok {
				verb = other
			}
			c.Fails(cmdline.ExitNotFound, "", append([]string{"schedule"}, args...), "dibs: "+verb+" schedule: unknown schedule", "dibs schedule ls")
		}
		for _, test := range []struct{ message, args string }{
			{"give --every or --cron", "add x"},
			{`--cron: "nonsense" has 1 field; cron has five`, "add x --cron nonsense"},
			{`--cron: "@sometimes" is not known; there are @hourly`, "add x --cron @sometimes"},
			{"--every must be 1s to 3650d, got 1ms", "add x --every 1ms"},
			{"--every must be 1s to 3650d, got 9999d", "next --every 9999d"},
			{`--cron: "x" has 1 field`, "next --cron x"},
			{"--zone: ", "add x --every 1m --zone Nowhere"},
			{"--payload: ", "add x --every 1m --payload {"},
			{"only one of --cron and --every can be given", "add x --every 1m --cron @daily"},
			{"name a schedule", "next"},
			{"n: must be 1 to 1000", "next --every 1m -n 0"},
		} {
			c.Fails(cmdline.ExitUsage, "", append([]string{"schedule"}, strings.Fields(test.args)...), test.message)
		}
		c.Fails(cmdline.ExitNotFound, "", []string{"schedule", "next", "*/10 * * * *"}, "unknown schedule", "dibs schedule next --cron '*/10 * * * *'\n")
		if got := c.OK("schedule", "ls"); !strings.HasPrefix(got, "no schedules yet") {
			c.T.Errorf("after that there are schedules:\n%s", got)
		}
	})
}

// A schedule whose end is past is kept, as it may get another end, but it makes no job.
func TestSchedulesWithoutTicksAreWarnedOf(t *testing.T) {
	onEach(t, func(c *cli) {
		warning := "dibs: schedule past has no more ticks: its end is before the next one\n"
		if r := c.Run("", "schedule", "add", "past", "--every", "10m", "--end", "2020-01-01"); r.Code != cmdline.ExitOK || r.Err != warning {
			c.T.Errorf("dibs schedule add: exit code %d, %q", r.Code, r.Err)
		}
		c.OK("schedule", "set", "past", "--end", "")
		if r := c.Run("", "schedule", "set", "past", "--end", "2020-01-01"); r.Code != cmdline.ExitOK || r.Err != warning {
			c.T.Errorf("dibs schedule set: exit code %d, %q", r.Code, r.Err)
		}
		c.OK("schedule", "pause", "past")
		c.OK("schedule", "set", "past", "--priority", "3")
		c.Fails(cmdline.ExitUsage, "", []string{"schedule", "set", "past", "--cron", "x"}, `dibs: --cron: "x" has 1 field`)
		if got := c.OK("schedule", "ls"); !strings.HasSuffix(got, "paused  -                 -  -\n") {
			c.T.Errorf("a schedule without a tick, job and owner is listed as:\n%s", got)
		}
	})
}
