package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/needs"
)

// These tests need what only Linux tells: what a process has read of its stdin, and who is in a
// group. Or they start dibs as a process of its own.

// A process may end after any answer, without saying so: its next job goes to the next process.
func TestWorkLinesLosesNothingWhenAProcessEndsBetweenJobs(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	onEach(t, func(c *cli) {
		const n = 60
		c.Feed(strings.Repeat("1\n", n), "enqueue", "q", "--jsonl", "--max-attempts", "1")
		log := c.worked(answer+`; case $(($id % 3)) in 0) exit 0 ;; 1) exit 7 ;; esac; kill -KILL $$`, "-c", "3")
		c.Has(c.Stats("q"), object{"completed": n, "dead": 0})
		pids := map[any]bool{}
		for id := 1; id <= n; id++ {
			c.once(id)
			pids[c.pidOf(id)] = true
		}
		if len(pids) != n {
			c.T.Errorf("%d processes have done %d jobs", len(pids), n)
		}
		if strings.Contains(log, "job not started") {
			c.T.Error("claims pause although the processes have answered")
		}
		for _, want := range []string{"exit code 7", "signal: killed"} {
			if !strings.Contains(log, want) {
				c.T.Errorf("the log does not say %q", want)
			}
		}
	})
}

// A program that cannot even begin fails no job, and is not started again and again.
func TestWorkLinesGivesJobsBackWhoseProcessDoesNotBegin(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		for name, program := range map[string]string{
			"fails": `echo "no such module" >&2; exit 1`, "ends": `exit 0`,
		} {
			c.OK("enqueue", name, "--max-attempts", "1")
			ready := filepath.Join(c.T.TempDir(), "ready")
			w := c.Process(name, "--lines", "-c", "2", "--", "sh", "-c", `if ! [ -e "$0" ]; then echo x >>"$0.starts"; `+program+`; fi; read -r line; echo "${line%%,\"queue*},\"ending\":\"completed\"}"; read -r line`, ready)
			w.Says("job not started; it is given back, and claims pause")
			starts := func() int {
				text, err := os.ReadFile(ready + ".starts")
				if err != nil {
					c.T.Fatal(err)
				}
				return strings.Count(string(text), "x")
			}
			for end := time.Now().Add(10 * time.Minute); starts() < 3; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					c.T.Fatalf("%s: it was started %d times", name, starts())
				}
			}
			if err := os.WriteFile(ready, nil, 0o600); err != nil {
				c.T.Fatal(err)
			}
			c.Await(name, "completed", 1)
			w.Signal(syscall.SIGTERM)
			if code := w.Ended(); code != cmdline.ExitOK {
				c.T.Errorf("%s: dibs work ends with exit code %d", name, code)
			}
			if n := starts(); n > 20 {
				c.T.Errorf("%s: it was started %d times", name, n)
			}
		}
		for id := 1; id <= 2; id++ {
			job := c.Job(id)
			c.Has(job, object{"state": "completed", "excused": job["attempt"].(float64) - 1})
			c.HasNot(job, "errors")
		}
	})
}

// A process that hangs is stopped: whatever it does, the others go on.
func TestWorkLinesStopsProcessesThatHang(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	const patient = "; sleep 300"
	for name, hang := range map[string]string{
		"asleep":                "sleep 300",
		"stopped":               "kill -STOP $$",
		"half a line":           `printf '{"id":1,"ending":"comp'` + patient,
		"children":              `setsid sleep 20 & sleep 300 & sleep 300`,
		"floods stdout":         `yes "a line of a log"`,
		"floods stderr":         `yes "a line of a log" >&2`,
		"floods without a line": `tr '\0' x </dev/zero`,
		"floods blanks":         `tr '\0' ' ' </dev/zero`,
		"ignores SIGTERM":       `trap "" TERM; while :; do sleep 1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "children" {
				needSetsid(t)
			}
			c := onSQLite(t)
			c.OK("enqueue", "q", "--max-attempts", "1")
			c.Feed(strings.Repeat("1\n", 20), "enqueue", "q", "--jsonl", "--max-attempts", "1")
			pid := filepath.Join(t.TempDir(), "pid")
			c.worked(`if [ $id = 1 ]; then echo $$ >"`+pid+`"; `+hang+`; else `+answer+`; fi`, "-c", "2", "--timeout", "3s", "--grace", "100ms")
			c.Has(c.Job(1), object{"state": "dead"})
			if got := lastError(c.Job(1)); !strings.HasPrefix(got, "job timeout of 3s: the process was stopped") {
				t.Errorf("the error is %q", term.Clip(got, 200))
			}
			c.Has(c.Stats("q"), object{"completed": 20, "dead": 1})
			noGroup(t, pid)
		})
	}
}

// noGroup checks that no process is left in the group whose id is in a file.
func noGroup(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if alive := livingGroup(pid); len(alive) > 0 {
		t.Errorf("the group of process %d is still there: %d", pid, alive)
	}
}

func TestWorkLinesStopsProcessesWithoutStreams(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for stream, program := range map[string]string{
		"stdout": `[ $id = 2 ] && exec >&- && sleep 300; ` + answer,
		"stdin":  answer + `; [ $id = 2 ] && exec <&- && sleep 300`,
	} {
		t.Run(stream, func(t *testing.T) {
			c := onSQLite(t)
			c.Feed(strings.Repeat("1\n", 4), "enqueue", "q", "--jsonl", "--max-attempts", "1")
			log := c.worked(program, "-c", "1", "--grace", "100ms")
			want := "the process has closed its " + stream
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
			if stream == "stdin" { // the job that the process could not read goes to another
				c.Has(c.Stats("q"), object{"completed": 4, "dead": 0})
				return
			}
			c.Has(c.Stats("q"), object{"completed": 3, "dead": 1})
			if got := lastError(c.Job(2)); got != want {
				t.Errorf("the error is %q", got)
			}
		})
	}
}

// A process that closes its stdin over a job, and goes on without an answer, is noticed though nothing more is written to it.
func TestWorkLinesFailsAJobOverWhichItsProcessClosesStdin(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.Feed("1\n1\n", "enqueue", "q", "--jsonl", "--max-attempts", "1")
	const want = "the process has closed its stdin"
	log := c.worked(`[ $id = 1 ] && exec <&- && sleep 300; `+answer, "-c", "1", "--grace", "100ms")
	if !strings.Contains(log, want) {
		t.Errorf("the log lacks %q:\n%s", want, log)
	}
	c.Has(c.Stats("q"), object{"completed": 1, "dead": 1})
	if got := lastError(c.Job(1)); got != want {
		t.Errorf("the error is %q", got)
	}
}

// A process that answers jobs without having read them does not know their tokens, and completes none.
func TestWorkLinesTakesNoAnswersOfAProcessThatDoesNotRead(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	c.Feed(strings.Repeat("1\n", 30), "enqueue", "q", "--jsonl", "--max-attempts", "1")
	w := c.Process("q", "--lines", "-c", "1", "--until-empty", "--", "sh", "-c",
		`while :; do for id in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do echo '{"id":'$id',"ending":"completed"}'; done; sleep 0.01; done`)
	go func() {
		for range w.Log {
		}
	}()
	if err := w.Cmd.Wait(); err != nil {
		t.Error(err)
	}
	c.Has(c.Stats("q"), object{"completed": 0, "dead": 30})
}

func TestWorkLinesGivesJobsBackAtTheSecondSignal(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	p := c.Pipe()
	c.OK("enqueue", "q")
	w := c.Process(append([]string{"q", "--lines", "--shutdown", "1h"}, lineWorker(`trap "" TERM; exec 3>"`+p.Path+`"; sleep 300 & echo x >&3; wait; sleep 300`)...)...)
	p.Begun()
	w.Signal(syscall.SIGINT)
	w.Says("worker stopping")
	w.Signal(syscall.SIGTERM)
	p.Gone()
	if code := w.Ended(); code != cmdline.ExitInterrupted {
		t.Errorf("dibs work ends with exit code %d", code)
	}
	job := c.Job(1)
	c.Has(job, object{"state": "waiting", "attempt": job["excused"]})
}
