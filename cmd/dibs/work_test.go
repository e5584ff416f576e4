//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

const pause = 50 * time.Millisecond // between two looks: each opens the database

// working is 'dibs work' in this process.
type working struct {
	stop  context.CancelFunc
	ended chan runResult
}

func (c *cli) work(args ...string) *working {
	ctx, cancel := context.WithCancel(context.Background())
	w := &working{stop: cancel, ended: make(chan runResult, 1)}
	go func() {
		var out, err strings.Builder
		code := run(ctx, append([]string{"--db", c.db, "work"}, args...), strings.NewReader(""), &out, &err)
		w.ended <- runResult{code, out.String(), err.String()}
	}()
	c.t.Cleanup(cancel)
	return w
}

// end waits for the end, which must be without an error.
func (c *cli) end(w *working) string {
	c.t.Helper()
	select {
	case r := <-w.ended:
		if r.code != exitOK || r.out != "" {
			c.t.Errorf("dibs work: exit code %d\n%s%s", r.code, r.out, r.err)
		}
		return r.err
	case <-time.After(patience):
		c.t.Fatal("dibs work does not end")
		return ""
	}
}

// pipe is a named pipe that programs keep open while they run.
type pipe struct {
	c    *cli
	path string
	file *os.File
}

func (c *cli) pipe() *pipe {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		c.t.Fatal(err)
	}
	return &pipe{c: c, path: path}
}

// begun waits until a program has written a line into the pipe.
func (p *pipe) begun() {
	p.c.t.Helper()
	read := make(chan error, 1)
	go func() {
		err := io.EOF
		for errors.Is(err, io.EOF) { // on a slow machine a lease may end before its program writes, which then begins again
			if p.file, err = os.Open(p.path); err == nil { // returns when a writer has opened it
				_, err = p.file.Read(make([]byte, 1))
			}
		}
		read <- err
	}()
	p.wait(read, "no program begins")
}

// gone waits until every process that had the pipe open has ended.
func (p *pipe) gone() {
	p.c.t.Helper()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, p.file)
		read <- err
	}()
	p.wait(read, "processes of the program go on")
}

func (p *pipe) wait(read chan error, otherwise string) {
	p.c.t.Helper()
	select {
	case err := <-read:
		if err != nil {
			p.c.t.Fatal(err)
		}
	case <-time.After(patience):
		p.c.t.Fatal(otherwise)
	}
}

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
		c.feed(strings.Join(kinds, "\n"), "enqueue", "q", "--lines", "--max-attempts", "2")
		c.ok("queue", "q", "--backoff", "1ms")
		log := c.end(c.work("q", "--until-empty", "--snooze", "0s", "-c", "4", "--", "sh", "-c", program))
		if want := `msg="worker stopped" completed=6 retry=2 dead=1 snooze=1 finished_by_handler=1 queue=q`; !strings.Contains(log, want) {
			c.t.Errorf("the log does not say %s:\n%s", want, log)
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
			c.has(c.job(i+1), want)
		}
		for id, want := range map[int]string{
			4: "exit code 100: it is hopeless\n\none\nit is hopeless",
			5: "exit code 7: try again",
			7: "signal: killed",
		} {
			if got := lastError(c.job(id)); got != want {
				c.t.Errorf("job %d failed with %q, want %q", id, got, want)
			}
		}

		c.ok("enqueue", "later", `"later"`)
		w := c.work("later", "--", "sh", "-c", program)
		c.await("later", "scheduled", 1)
		w.stop()
		c.end(w)
	})
}

func lastError(job object) string {
	list, ok := job["errors"].([]any)
	if !ok {
		return ""
	}
	return list[len(list)-1].(map[string]any)["error"].(string)
}

// await waits until one of a queue's counts has a value.
func (c *cli) await(queue, field string, want int) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := c.stats(queue)[field]
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s of queue %s stays %v, want %d", field, queue, got, want)
		}
		time.Sleep(pause)
	}
}

func TestWorkGivesTheProgramItsJob(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		payload := `{"a" :  "ä\u0000<&>", "n": 12345678901234567890}`
		c.ok("enqueue", "my queue", payload, "--kind", "k=1", "--group", "g", "--max-attempts", "9")
		token := `echo "$DIBS_TOKEN" | grep -qE "^[0-9a-f]{32}$" || exit 100;`
		env := token + `cd /; printf "%s|" "$DIBS_JOB_ID" "$DIBS_QUEUE" "$DIBS_KIND" "$DIBS_ATTEMPT" "$DIBS_MAX_ATTEMPTS" "$DIBS_GROUP" "$DIBS_DB"; cat`
		c.end(c.work("my queue", "--until-empty", "--", "sh", "-c", env))
		got, ok := c.job(1)["result"].(string)
		if want := "1|my queue|k=1|1|9|g|" + c.db + "|" + payload; !ok || got != want {
			c.t.Errorf("the program has seen %q, want %q", got, want)
		}
	})
}

func TestWorkKeepsLargeOutputWithinItsLimits(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.feed("1\n", "enqueue", "out", "--lines")
		log := c.end(c.work("out", "--until-empty", "--", "sh", "-c", `head -c 3000000 /dev/zero | tr "\0" "\1"`))
		result := c.ok("show", "1", "--result")
		var text string
		if err := json.Unmarshal([]byte(result), &text); err != nil || len(result) > 1<<20+1 || len(result) < 1<<19 || !strings.HasSuffix(result, "\"\n") || !strings.HasSuffix(text, "\x01… (cut)") {
			c.t.Errorf("%d bytes are kept, %v, ending in %q", len(result), err, result[max(0, len(result)-30):])
		}
		if !strings.Contains(log, "stdout is longer than a result may be") {
			c.t.Errorf("nothing is said about it: %s", log)
		}
		c.feed("1\n", "enqueue", "err", "--lines", "--max-attempts", "1")
		c.end(c.work("err", "--until-empty", "--", "sh", "-c", `yes "line of an error" | head -n 100000 >&2; echo last >&2; exit 1`))
		if got := lastError(c.job(2)); len(got) > 4096 || len(got) < 1024 || !strings.HasPrefix(got, "exit code 1: last\n\n…\nline of an error\n") || !strings.HasSuffix(got, "\nlast") {
			c.t.Errorf("the error has %d bytes: %.60q", len(got), got)
		}
		c.feed("1\n", "enqueue", "none", "--lines")
		c.end(c.work("none", "--until-empty", "--no-result", "--", "echo", "hello"))
		c.has(c.job(3), object{"state": "completed", "result": nil})
	})
}

func TestWorkGivesTextAsItIs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.feed("a \"b\" <ä>\n", "enqueue", "q", "--lines")
		c.ok("enqueue", "q", `{"a": "b"}`)
		c.ok("enqueue", "q")
		c.end(c.work("q", "--text", "--until-empty", "--", "sh", "-c", `printf "%s|" "$(cat)"`))
		for i, want := range []string{`a "b" <ä>|`, `{"a": "b"}|`, "null|"} {
			c.has(c.job(i+1), object{"result": want})
		}
	})
}

func TestWorkTakesOnlyItsKinds(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		for _, kind := range []string{"a", "b", "c"} {
			c.ok("enqueue", "q", "--kind", kind)
		}
		c.end(c.work("q", "--until-empty", "--kind", "a", "--kind", "b", "--", "true"))
		c.has(c.stats("q"), object{"completed": 2, "waiting": 1})
		c.has(c.job(3), object{"state": "waiting"})
	})
}

// Durations in the JSON log are numbers of seconds, as 'dibs help json' says.
func TestWorkLogsDurationsInSeconds(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.ok("enqueue", "q")
	seen := make(map[string]bool)
	for _, line := range c.rows(c.end(c.work("q", "--json", "--verbose", "--until-empty", "--shutdown", "90s", "--", "sleep", "0.01"))) {
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
		c.ok("enqueue", "q")
		job := c.row(c.ok("claim", "q", "--lease", "1m"))
		w := c.work("q", "--until-empty", "--", "true")
		c.ok("extend", "1", job["token"].(string), "--lease", "1m")
		select {
		case r := <-w.ended:
			c.t.Fatalf("it ends though a job runs elsewhere: %v", r)
		default:
		}
		c.ok("finish", "1", job["token"].(string), "--release")
		c.end(w)
		c.has(c.job(1), object{"state": "completed", "attempt": 2})
	})
}

func TestWorkTakesBackItsJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.ok("enqueue", "q")
		c.ok("claim", "q", "--worker", "w1", "--lease", "1h")
		c.end(c.work("q", "--name", "w1", "--resume", "--until-empty", "--", "true"))
		c.has(c.job(1), object{"state": "completed", "attempt": 2, "worker": "w1"})
	})
}

func TestWorkStopsTheProgramsOfCancelledJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.work("q", "--lease", "10s", "--until-empty", "--", "sh", "-c", programWithChild, p.path)
		p.begun()
		c.ok("cancel", "1")
		p.gone()
		c.end(w)
		c.has(c.job(1), object{"state": "cancelled"})
	})
}

func TestWorkStopsProgramsAfterTheirTimeout(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q", "--max-attempts", "1")
		w := c.work("q", "--timeout", "300ms", "--grace", "10ms", "--until-empty", "--", "sh", "-c", stubborn, p.path)
		p.begun()
		p.gone()
		c.end(w)
		c.has(c.job(1), object{"state": "dead"})
		if got := lastError(c.job(1)); !strings.HasPrefix(got, "job timeout of 300ms: the program was stopped") {
			c.t.Errorf("the error is %q", got)
		}
	})
}

// An operator ends programs that hang, without starting their workers anew.
func TestWorkStopsProgramsThatRunLongerThanTheirQueueAllowsByNow(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q", "--max-attempts", "1")
		w := c.work("q", "--lease", "6s", "--grace", "10ms", "--until-empty", "--", "sh", "-c", stubborn, p.path)
		p.begun()
		c.ok("queue", "q", "--job-timeout", "100ms")
		p.gone()
		c.end(w)
		c.has(c.job(1), object{"state": "dead"})
		if got := lastError(c.job(1)); !strings.HasPrefix(got, "job timeout of the queue: it has run for ") {
			c.t.Errorf("the error is %q", got)
		}
	})
}

func TestWorkGivesJobsBackAtShutdown(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.work("q", "--shutdown", "0s", "--", "sh", "-c", programWithChild, p.path)
		p.begun()
		w.stop()
		c.end(w)
		p.gone()
		c.has(c.job(1), object{"state": "waiting", "attempt": 1, "excused": 1})
		c.hasNot(c.job(1), "errors")
	})
}

// A program that has ended must not leave children that go on with its job.
func TestWorkKillsWhatProgramsLeaveBehind(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.work("q", "--until-empty", "--", "sh", "-c", `exec 3>"$0"; sleep 300 & echo x >&3; echo result`, p.path)
		p.begun()
		p.gone()
		c.end(w)
		c.has(c.job(1), object{"state": "completed", "result": "result"})
	})
}

// A path that is misspelt, or another folder, makes another database: the log names it.
func TestWorkNamesItsDatabaseAndSaysWhenItIsNew(t *testing.T) {
	c := onSQLite(t)
	work := func() string { return c.run("", "work", "q", "--until-empty", "--", "true").err }
	if got := work(); !strings.Contains(got, `msg="made a new database" database=`+c.db+"\n") {
		t.Errorf("the log of the first worker: %s", got)
	}
	if got := work(); !strings.Contains(got, `msg="opened the database" database=`+c.db+"\n") || strings.Contains(got, "new database") {
		t.Errorf("the log of the second worker: %s", got)
	}
}

func TestWorkNamesItsDatabaseWithoutThePassword(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, db: pgtest.Filled(t, "migrated", migrated)}
	u, err := url.Parse(c.db)
	if err != nil {
		t.Fatal(err)
	}
	secret, has := u.User.Password()
	if !has {
		secret = u.Query().Get("password")
	}
	got := c.run("", "work", "q", "--until-empty", "--", "true").err
	if !strings.Contains(got, `msg="opened the database" database=`) || secret == "" || strings.Contains(got, secret) {
		t.Errorf("the log: %s", got)
	}
}
