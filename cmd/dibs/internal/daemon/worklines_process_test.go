//go:build unix

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// once checks that a job was completed by the first attempt that counts. A worker may have claimed
// it ahead before, and given it back.
func (c *cli) once(id int) {
	c.T.Helper()
	job := c.Job(id)
	excused, _ := job["excused"].(float64)
	c.Has(job, object{"state": "completed", "attempt": excused + 1})
	c.HasNot(job, "errors")
}

func TestWorkLinesReplacesProcessesAfterMaxJobs(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, flags := range [][]string{{"-c", "1"}, {"-c", "4", "--shared"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			c := onSQLite(t)
			c.Feed(strings.Repeat("1\n", 20), "enqueue", "q", "--jsonl", "--max-attempts", "1")
			c.worked(answer, append(flags, "--max-jobs", "3")...)
			jobs := map[any]int{}
			for id := 1; id <= 20; id++ {
				c.once(id)
				jobs[c.pidOf(id)]++
			}
			for pid, n := range jobs {
				if n > 3 {
					t.Errorf("process %v has done %d jobs", pid, n)
				}
			}
		})
	}
}

// What a process was doing when it ended has failed, with its exit status and the end of its stderr.
func TestWorkLinesFailsTheJobOfAProcessThatEnds(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.Feed(strings.Repeat("1\n", 6), "enqueue", "q", "--jsonl", "--max-attempts", "1")
		c.worked(`case $id in
			1) echo one >&2; echo "it is hopeless" >&2; exit 7 ;;
			2) exit 0 ;;
			3) kill -KILL $$ ;;
			4) printf '{"id":4,"ending":"comp'; exit 1 ;;
			5) printf '{"id":5,"token":"%s","ending":"completed","result":[0]}' $token; exit 1 ;;
			*) `+answer+` ;; esac`, "-c", "1")
		for id, want := range map[int]string{
			1: "the process ended without an answer: exit code 7: it is hopeless\n\none\nit is hopeless",
			2: "the process ended without an answer: exit code 0",
			3: "the process ended without an answer: signal: killed",
			4: "the process wrote what is no answer: it begins with { and does not end on its line: write an answer as one line of JSON, not indented, and logs to stderr",
		} {
			c.Has(c.Job(id), object{"state": "dead"})
			if got := lastError(c.Job(id)); !strings.HasPrefix(got, want) {
				c.T.Errorf("job %d failed with %q, want %q", id, got, want)
			}
		}
		c.Has(c.Job(5), object{"state": "completed"}) // its answer was whole
		c.Has(c.Job(6), object{"state": "completed"})
	})
}

// A worker that dies by an exception has its job say which, in whatever language it is written.
func TestWorkLinesNamesTheException(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, test := range []struct {
		argv []string
		want string
	}{
		{[]string{"python3", "-c", "import json, sys\nprint(json.loads(sys.stdin.readline())['payload']['to'])"}, "TypeError: 'int' object is not subscriptable"},
		{[]string{"node", "-e", "require('readline').createInterface({input: process.stdin}).on('line', (line) => { throw new Error('no recipient in ' + JSON.parse(line).payload) })"}, "Error: no recipient in 1"},
		{[]string{"python3", "-c", "import json, sys\njob = json.loads(sys.stdin.readline())\nprint(json.dumps({'id': job['id'], 'token': job['token'], 'ending': 'completed'}, indent=2), flush=True)"}, "it begins with { and does not end on its line: write an answer as one line of JSON, not indented, and logs to stderr"},
	} {
		t.Run(test.argv[0]+" "+test.want[:9], func(t *testing.T) {
			needs.Program(t, test.argv[0])
			c := onSQLite(t)
			c.OK("enqueue", "q", "1", "--max-attempts", "1")
			c.End(c.Work(append([]string{"q", "--lines", "-c", "1", "--until-empty", "--"}, test.argv...)...))
			c.Has(c.Job(1), object{"state": "dead"})
			first, _, _ := strings.Cut(lastError(c.Job(1)), "\n")
			if !strings.Contains(first, test.want) {
				t.Errorf("the error begins with %q, want %q", first, test.want)
			}
		})
	}
}

func TestWorkLinesStopsCancelledJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q", "1")
		c.OK("enqueue", "q", "2", "--delay", "1s")
		w := c.Work(append([]string{"q", "--lines", "-c", "1", "--lease", "10s", "--until-empty"}, lineWorker(`if [ $id = 1 ]; then exec 3>"`+p.Path+`"; sleep 300 & echo x >&3; wait; fi; `+answer)...)...)
		p.Begun()
		c.OK("cancel", "1")
		p.Gone()
		c.End(w)
		c.Has(c.Job(1), object{"state": "cancelled"})
		c.Has(c.Job(2), object{"state": "completed"})
	})
}

func TestWorkLinesGivesJobsBackAtShutdown(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		for i, flags := range [][]string{{"-c", "1"}, {"-c", "5", "--shared"}} {
			id := i + 1
			p := c.Pipe()
			c.OK("enqueue", "q")
			w := c.Work(append(append([]string{"q", "--lines", "--shutdown", "0s", "--grace", "200ms"}, flags...), lineWorker(`exec 3>"`+p.Path+`"; sleep 300 & echo x >&3; wait`)...)...)
			p.Begun()
			w.Stop()
			c.End(w)
			p.Gone()
			job := c.Job(id)
			c.Has(job, object{"state": "waiting"})
			c.HasNot(job, "errors")
			c.OK("cancel", fmt.Sprint(id))
		}
	})
}

// At the end, stdin is closed: a process answers what it has, and can do its last work.
func TestWorkLinesEndsProcessesByTheEndOfStdin(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		gone := filepath.Join(c.T.TempDir(), "gone")
		c.OK("enqueue", "q")
		w := c.Work("q", "--lines", "-c", "3", "--", "sh", "-c", `
			trap 'echo TERM >>"$1"' TERM
			while IFS= read -r line; do exec 3>"$0"; echo x >&3; sleep 0.3; echo "${line%%,\"queue*},\"ending\":\"completed\"}"; done
			echo end >>"$1"`, p.Path, gone)
		p.Begun()
		w.Stop()
		c.End(w)
		c.Has(c.Job(1), object{"state": "completed", "attempt": 1})
		said, err := os.ReadFile(gone)
		if lines := strings.Fields(string(said)); err != nil || len(lines) != 3 || slices.Contains(lines, "TERM") {
			c.T.Errorf("the processes ended by %q, %v", said, err)
		}
	})
}

func TestWorkLinesKeepsProgress(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.Pipe()
		c.OK("enqueue", "q")
		w := c.Work(append([]string{"q", "--lines", "-c", "1", "--lease", "6s"}, lineWorker(`echo "{\"id\":$id,\"token\":\"$token\",\"progress\":{\"done\":3,\"total\":10,\"text\":\"größer\"}}"; exec 3>"`+p.Path+`"; echo x >&3; sleep 300`)...)...)
		p.Begun()
		var progress map[string]any
		for deadline := time.Now().Add(clitest.Patience); progress == nil; time.Sleep(100 * time.Millisecond) { // waits for the next extension of the lease
			progress, _ = c.Job(1)["progress"].(map[string]any)
			if time.Now().After(deadline) {
				c.T.Fatal("no progress is written")
			}
		}
		c.Has(progress, object{"done": 3, "total": 10, "text": "größer"})
		c.OK("cancel", "1")
		c.Await("q", "cancelled", 1)
		w.Stop()
		c.End(w)
	})
}

// Python keeps what it prints to a pipe back, unless it is told not to: the worker's answer would
// never come. Not parallel: it sets the environment.
func TestWorkLinesNeedsNoFlushOfPython(t *testing.T) {
	needs.Race(t)
	needs.Program(t, "python3")
	t.Setenv("PYTHONUNBUFFERED", "") // puts it back at the end
	if err := os.Unsetenv("PYTHONUNBUFFERED"); err != nil {
		t.Fatal(err)
	}
	c := newCLI(t, "sqlite:"+t.TempDir()+"/test.db")
	c.Feed(strings.Repeat("1\n", 3), "enqueue", "q", "--jsonl", "--max-attempts", "1")
	c.End(c.Work("q", "--lines", "-c", "1", "--until-empty", "--", "python3", "-c",
		"import json, sys\nfor line in sys.stdin: print(json.dumps({'ending': 'completed', **{name: json.loads(line)[name] for name in ('id', 'token')}}))"))
	for id := 1; id <= 3; id++ {
		c.once(id)
	}
}

// Not parallel: it sets the environment.
func TestWorkLinesLeavesTheUsersChoiceOfBuffers(t *testing.T) {
	needs.Race(t)
	shown := `echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":\"${PYTHONUNBUFFERED-none}\"}"`
	for _, value := range []string{"", "x"} {
		t.Setenv("PYTHONUNBUFFERED", value)
		c := newCLI(t, "sqlite:"+t.TempDir()+"/test.db")
		c.OK("enqueue", "q")
		c.worked(shown, "-c", "1")
		c.Has(c.Job(1), object{"result": value})
	}
	if err := os.Unsetenv("PYTHONUNBUFFERED"); err != nil { // t.Setenv puts it back
		t.Fatal(err)
	}
	c := newCLI(t, "sqlite:"+t.TempDir()+"/test.db")
	c.OK("enqueue", "q")
	c.worked(shown, "-c", "1")
	c.Has(c.Job(1), object{"result": "1"})
}
