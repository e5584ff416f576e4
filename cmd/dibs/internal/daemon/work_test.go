//go:build unix

package daemon

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// programWithChild has a child; both keep the pipe open for minutes.
const programWithChild = `exec 3>"$0"; sleep 300 & echo x >&3; wait`

// stubborn is programWithChild, but ignores SIGTERM.
const stubborn = `trap "" TERM; ` + programWithChild

func TestWorkExitCodes(t *testing.T) {
	needs.Race(t)
	const program = `
		case "$(cat)-$DIBS_ATTEMPT" in
		\"text\"-1)    echo " two"; echo "lines " ;;
		\"json\"-1)    echo '{"a": 1}' ;;
		\"silent\"-1)  ;;
		\"dead\"-1)    echo one >&2; echo "it is hopeless" >&2; exit 100 ;;
		\"retry\"-1)   echo "try again" >&2; echo "dibs: delay 0s" >&2; exit 7 ;;
		\"snooze\"-1)  exit 101 ;;
		\"later\"-1)   echo "dibs: delay 1h" >&2; exit 101 ;;
		\"signal\"-1)  kill -KILL $$ ;;
		\"own\"-1)     DIBS_TEST_AS_COMMAND=1 "$DIBS_TEST_SELF" finish "$DIBS_JOB_ID" "$DIBS_TOKEN" --completed --result '"own"' >/dev/null && exit 102 ;;
		*-2)           echo again ;;
		esac`
	onEach(t, func(c *cli) {
		kinds := []string{"text", "json", "silent", "dead", "retry", "snooze", "signal", "own"}
		c.Feed(strings.Join(kinds, "\n"), "enqueue", "q", "--lines", "--max-attempts", "2")
		c.OK("queue", "q", "--backoff", "1ms", "--lease", "1h") // no lease ends, and none is extended, on a slow machine
		log := c.End(c.Work("q", "--until-empty", "--snooze", "0s", "-c", "4", "--", "sh", "-c", program))
		if want := `msg="worker stopped" completed=6 retry=2 dead=1 snooze=1 finished_by_handler=1 queue=q`; !strings.Contains(log, want) {
			c.T.Errorf("the log does not say %s:\n%s", want, log)
		}
		for i, want := range []object{
			{"state": "completed", "result": "two\nlines", "attempt": 1},
			{"state": "completed", "result": map[string]any{"a": 1}},
			{"state": "completed", "result": nil},
			{"state": "dead", "attempt": 1},
			{"state": "completed", "attempt": 2, "result": "again"},
			{"state": "completed", "attempt": 2, "excused": 1, "result": "again"},
			{"state": "completed", "attempt": 2, "result": "again"},
			{"state": "completed", "attempt": 1, "result": "own"},
		} {
			c.Has(c.Job(i+1), want)
		}
		for id, want := range map[int]string{
			4: "exit code 100: it is hopeless\n\none\nit is hopeless",
			5: "exit code 7: try again",
			7: "signal: killed",
		} {
			if got := lastError(c.Job(id)); got != want {
				c.T.Errorf("job %d failed with %q, want %q", id, got, want)
			}
		}

		c.OK("enqueue", "later", `"later"`)
		w := c.Work("later", "--", "sh", "-c", program)
		c.Await("later", "scheduled", 1)
		w.Stop()
		c.End(w)
	})
}

func lastError(job object) string {
	list, ok := job["errors"].([]any)
	if !ok {
		return ""
	}
	return list[len(list)-1].(map[string]any)["error"].(string)
}

func TestWorkGivesTheProgramItsJob(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		payload := `{"a" :  "ä\u0000<&>", "n": 12345678901234567890}`
		c.OK("enqueue", "my queue", payload, "--kind", "k=1", "--group", "g", "--max-attempts", "9")
		token := `echo "$DIBS_TOKEN" | grep -qE "^[0-9a-f]{32}$" || exit 100;`
		env := token + `cd /; printf "%s|" "$DIBS_JOB_ID" "$DIBS_QUEUE" "$DIBS_KIND" "$DIBS_ATTEMPT" "$DIBS_MAX_ATTEMPTS" "$DIBS_GROUP" "$DIBS_DB"; cat`
		c.End(c.Work("my queue", "--until-empty", "--", "sh", "-c", env))
		got, ok := c.Job(1)["result"].(string)
		if want := "1|my queue|k=1|1|9|g|" + c.DB + "|" + payload; !ok || got != want {
			c.T.Errorf("the program has seen %q, want %q", got, want)
		}
	})
}

func TestWorkKeepsLargeOutputWithinItsLimits(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.Feed("1\n", "enqueue", "out", "--lines")
		log := c.End(c.Work("out", "--until-empty", "--", "sh", "-c", `head -c 3000000 /dev/zero | tr "\0" "\1"`))
		result := c.OK("show", "1", "--result")
		var text string
		if err := json.Unmarshal([]byte(result), &text); err != nil || len(result) > 1<<20+1 || len(result) < 1<<19 || !strings.HasSuffix(result, "\"\n") || !strings.HasSuffix(text, "\x01… (cut)") {
			c.T.Errorf("%d bytes are kept, %v, ending in %q", len(result), err, result[max(0, len(result)-30):])
		}
		if !strings.Contains(log, "stdout is longer than a result may be") {
			c.T.Errorf("nothing is said about it: %s", log)
		}
		c.Feed("1\n", "enqueue", "err", "--lines", "--max-attempts", "1")
		c.End(c.Work("err", "--until-empty", "--", "sh", "-c", `yes "line of an error" | head -n 100000 >&2; echo last >&2; exit 1`))
		if got := lastError(c.Job(2)); len(got) > 4096 || len(got) < 1024 || !strings.HasPrefix(got, "exit code 1: last\n\n…\nline of an error\n") || !strings.HasSuffix(got, "\nlast") {
			c.T.Errorf("the error has %d bytes: %.60q", len(got), got)
		}
		c.Feed("1\n", "enqueue", "none", "--lines")
		c.End(c.Work("none", "--until-empty", "--no-result", "--", "echo", "hello"))
		c.Has(c.Job(3), object{"state": "completed", "result": nil})
	})
}

func TestWorkGivesTextAsItIs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.Feed("a \"b\" <ä>\n", "enqueue", "q", "--lines")
		c.OK("enqueue", "q", `{"a": "b"}`)
		c.OK("enqueue", "q")
		c.End(c.Work("q", "--text", "--until-empty", "--", "sh", "-c", `printf "%s|" "$(cat)"`))
		for i, want := range []string{`a "b" <ä>|`, `{"a": "b"}|`, "null|"} {
			c.Has(c.Job(i+1), object{"result": want})
		}
	})
}

func TestWorkTakesOnlyItsKinds(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		for _, kind := range []string{"a", "b", "c"} {
			c.OK("enqueue", "q", "--kind", kind)
		}
		c.End(c.Work("q", "--until-empty", "--kind", "a", "--kind", "b", "--", "true"))
		c.Has(c.Stats("q"), object{"completed": 2, "waiting": 1})
		c.Has(c.Job(3), object{"state": "waiting"})
	})
}

// Durations in the JSON log are numbers of seconds, as 'dibs help json' says.
func TestWorkLogsDurationsInSeconds(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.OK("enqueue", "q")
	seen := make(map[string]bool)
	for _, line := range c.Rows(c.End(c.Work("q", "--json", "--verbose", "--until-empty", "--shutdown", "90s", "--", "sleep", "0.01"))) {
		for _, field := range []string{"took", "waited", "ran", "wait"} {
			if v, ok := line[field]; ok {
				seen[field] = true
				if d, ok := v.(float64); !ok || d > 1000 || field == "wait" && d != 90 || field == "ran" && d < 0.01 {
					t.Errorf("%s is %v, in %v", field, v, line)
				}
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("the log has only %v", seen)
	}
}

func TestWorkUntilEmptyWaitsForOtherWorkers(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		job := c.Row(c.OK("claim", "q", "--lease", "1m"))
		w := c.Work("q", "--until-empty", "--", "true")
		c.OK("extend", "1", job["token"].(string), "--lease", "1m")
		select {
		case r := <-w.Ended:
			c.T.Fatalf("it ends though a job runs elsewhere: %v", r)
		default:
		}
		c.OK("finish", "1", job["token"].(string), "--release")
		c.End(w)
		c.Has(c.Job(1), object{"state": "completed", "attempt": 2})
	})
}

func TestWorkTakesBackItsJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		c.OK("claim", "q", "--worker", "w1", "--lease", "1h")
		c.End(c.Work("q", "--name", "w1", "--resume", "--until-empty", "--", "true"))
		c.Has(c.Job(1), object{"state": "completed", "attempt": 2, "worker": "w1"})
	})
}

func TestWorkStopsTheProgramsOfCancelledJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Work("q", "--lease", "10s", "--until-empty", "--", "sh", "-c", programWithChild, p.Path)
		p.Begun()
		c.OK("cancel", "1")
		p.Gone()
		c.End(w)
		c.Has(c.Job(1), object{"state": "cancelled"})
	})
}

func TestWorkStopsProgramsAfterTheirTimeout(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q", "--max-attempts", "1")
		w := c.Work("q", "--timeout", "300ms", "--grace", "10ms", "--until-empty", "--", "sh", "-c", stubborn, p.Path)
		p.Begun()
		p.Gone()
		c.End(w)
		c.Has(c.Job(1), object{"state": "dead"})
		if got := lastError(c.Job(1)); !strings.HasPrefix(got, "job timeout of 300ms: the program was stopped") {
			c.T.Errorf("the error is %q", got)
		}
	})
}

// An operator ends programs that hang, without starting their workers anew.
func TestWorkStopsProgramsThatRunLongerThanTheirQueueAllowsByNow(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q", "--max-attempts", "1")
		w := c.Work("q", "--lease", "6s", "--grace", "10ms", "--until-empty", "--", "sh", "-c", stubborn, p.Path)
		p.Begun()
		c.OK("queue", "q", "--job-timeout", "100ms")
		p.Gone()
		c.End(w)
		c.Has(c.Job(1), object{"state": "dead"})
		if got := lastError(c.Job(1)); !strings.HasPrefix(got, "job timeout of the queue: it has run for ") {
			c.T.Errorf("the error is %q", got)
		}
	})
}

func TestWorkGivesJobsBackAtShutdown(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Work("q", "--shutdown", "0s", "--", "sh", "-c", programWithChild, p.Path)
		p.Begun()
		w.Stop()
		c.End(w)
		p.Gone()
		c.Has(c.Job(1), object{"state": "waiting", "attempt": 1, "excused": 1})
		c.HasNot(c.Job(1), "errors")
	})
}

// A program that has ended must not leave children that go on with its job.
func TestWorkKillsWhatProgramsLeaveBehind(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Work("q", "--until-empty", "--", "sh", "-c", `exec 3>"$0"; sleep 300 & echo x >&3; echo result`, p.Path)
		p.Begun()
		p.Gone()
		c.End(w)
		c.Has(c.Job(1), object{"state": "completed", "result": "result"})
	})
}

// A path that is misspelt, or another folder, makes another database: the log names it.
func TestWorkNamesItsDatabaseAndSaysWhenItIsNew(t *testing.T) {
	c := onSQLite(t)
	work := func() string { return c.Run("", "work", "q", "--until-empty", "--", "true").Err }
	if got := work(); !strings.Contains(got, `msg="made a new database" database=`+c.DB+"\n") {
		t.Errorf("the log of the first worker: %s", got)
	}
	if got := work(); !strings.Contains(got, `msg="opened the database" database=`+c.DB+"\n") || strings.Contains(got, "new database") {
		t.Errorf("the log of the second worker: %s", got)
	}
}

func TestWorkNamesItsDatabaseWithoutThePassword(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgtest.Filled(t, "migrated", clitest.Migrate))
	u, err := url.Parse(c.DB)
	if err != nil {
		t.Fatal(err)
	}
	secret, has := u.User.Password()
	if !has {
		secret = u.Query().Get("password")
	}
	got := c.Run("", "work", "q", "--until-empty", "--", "true").Err
	if !strings.Contains(got, `msg="opened the database" database=`) || secret == "" || strings.Contains(got, secret) {
		t.Errorf("the log: %s", got)
	}
}
