//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// once checks that a job was completed by the first attempt that counts. A worker may have claimed
// it ahead before, and given it back.
func (c *cli) once(id int) {
	c.t.Helper()
	job := c.job(id)
	excused, _ := job["excused"].(float64)
	c.has(job, object{"state": "completed", "attempt": excused + 1})
	c.hasNot(job, "errors")
}

func TestWorkLinesReplacesProcessesAfterMaxJobs(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for _, flags := range [][]string{{"-c", "1"}, {"-c", "4", "--shared"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			c := onSQLite(t)
			c.feed(strings.Repeat("1\n", 20), "enqueue", "q", "--jsonl", "--max-attempts", "1")
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

// Two goroutines find that a process takes one more job, and then both give it one.
func TestAProcessIsGivenNoMoreThanMaxJobs(t *testing.T) {
	t.Parallel()
	p := newProgram(&workFlags{argv: []string{"cat"}}, os.Environ(), t.Context().Done())
	defer p.close()
	p.log = slog.New(slog.DiscardHandler)
	pool := (&app{stderr: io.Discard}).newLinePool(p, &workFlags{concurrency: 4, processes: 1, shared: true, maxJobs: 1})
	defer pool.close()
	first, err := pool.taker(pool.seats[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := pool.taker(pool.seats[0])
	if err != nil || second != first {
		t.Fatal(second == first, err)
	}
	if j, _ := first.give(&dibs.RawJob{ID: 1}, []byte("{}\n")); j == nil {
		t.Error("the process takes no job")
	}
	if j, has := second.give(&dibs.RawJob{ID: 2}, []byte("{}\n")); j != nil || has {
		t.Errorf("the process takes two jobs: %v %v", j, has)
	}
}

// What a process was doing when it ended has failed, with its exit status and the end of its stderr.
func TestWorkLinesFailsTheJobOfAProcessThatEnds(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.feed(strings.Repeat("1\n", 6), "enqueue", "q", "--jsonl", "--max-attempts", "1")
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
			c.has(c.job(id), object{"state": "dead"})
			if got := lastError(c.job(id)); !strings.HasPrefix(got, want) {
				c.t.Errorf("job %d failed with %q, want %q", id, got, want)
			}
		}
		c.has(c.job(5), object{"state": "completed"}) // its answer was whole
		c.has(c.job(6), object{"state": "completed"})
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
			c.ok("enqueue", "q", "1", "--max-attempts", "1")
			c.end(c.work(append([]string{"q", "--lines", "-c", "1", "--until-empty", "--"}, test.argv...)...))
			c.has(c.job(1), object{"state": "dead"})
			first, _, _ := strings.Cut(lastError(c.job(1)), "\n")
			if !strings.Contains(first, test.want) {
				t.Errorf("the error begins with %q, want %q", first, test.want)
			}
		})
	}
}

func TestWorkLinesStopsCancelledJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q", "1")
		c.ok("enqueue", "q", "2", "--delay", "1s")
		w := c.work(append([]string{"q", "--lines", "-c", "1", "--lease", "10s", "--until-empty"}, lineWorker(`if [ $id = 1 ]; then exec 3>"`+p.path+`"; sleep 300 & echo x >&3; wait; fi; `+answer)...)...)
		p.begun()
		c.ok("cancel", "1")
		p.gone()
		c.end(w)
		c.has(c.job(1), object{"state": "cancelled"})
		c.has(c.job(2), object{"state": "completed"})
	})
}

func TestWorkLinesGivesJobsBackAtShutdown(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		for i, flags := range [][]string{{"-c", "1"}, {"-c", "5", "--shared"}} {
			id := i + 1
			p := c.pipe()
			c.ok("enqueue", "q")
			w := c.work(append(append([]string{"q", "--lines", "--shutdown", "0s", "--grace", "200ms"}, flags...), lineWorker(`exec 3>"`+p.path+`"; sleep 300 & echo x >&3; wait`)...)...)
			p.begun()
			w.stop()
			c.end(w)
			p.gone()
			job := c.job(id)
			c.has(job, object{"state": "waiting"})
			c.hasNot(job, "errors")
			c.ok("cancel", fmt.Sprint(id))
		}
	})
}

// At the end, stdin is closed: a process answers what it has, and can do its last work.
func TestWorkLinesEndsProcessesByTheEndOfStdin(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		gone := filepath.Join(c.t.TempDir(), "gone")
		c.ok("enqueue", "q")
		w := c.work("q", "--lines", "-c", "3", "--", "sh", "-c", `
			trap 'echo TERM >>"$1"' TERM
			while IFS= read -r line; do exec 3>"$0"; echo x >&3; sleep 0.3; echo "${line%%,\"queue*},\"ending\":\"completed\"}"; done
			echo end >>"$1"`, p.path, gone)
		p.begun()
		w.stop()
		c.end(w)
		c.has(c.job(1), object{"state": "completed", "attempt": 1})
		said, err := os.ReadFile(gone)
		if lines := strings.Fields(string(said)); err != nil || len(lines) != 3 || slices.Contains(lines, "TERM") {
			c.t.Errorf("the processes ended by %q, %v", said, err)
		}
	})
}

func TestWorkLinesKeepsProgress(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		p := c.pipe()
		c.ok("enqueue", "q")
		w := c.work(append([]string{"q", "--lines", "-c", "1", "--lease", "6s"}, lineWorker(`echo "{\"id\":$id,\"token\":\"$token\",\"progress\":{\"done\":3,\"total\":10,\"text\":\"größer\"}}"; exec 3>"`+p.path+`"; echo x >&3; sleep 300`)...)...)
		p.begun()
		var progress map[string]any
		for deadline := time.Now().Add(patience); progress == nil; time.Sleep(100 * time.Millisecond) { // waits for the next extension of the lease
			progress, _ = c.job(1)["progress"].(map[string]any)
			if time.Now().After(deadline) {
				c.t.Fatal("no progress is written")
			}
		}
		c.has(progress, object{"done": 3, "total": 10, "text": "größer"})
		c.ok("cancel", "1")
		c.await("q", "cancelled", 1)
		w.stop()
		c.end(w)
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
	c := &cli{t: t, db: "sqlite:" + t.TempDir() + "/test.db"}
	c.feed(strings.Repeat("1\n", 3), "enqueue", "q", "--jsonl", "--max-attempts", "1")
	c.end(c.work("q", "--lines", "-c", "1", "--until-empty", "--", "python3", "-c",
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
		c := &cli{t: t, db: "sqlite:" + t.TempDir() + "/test.db"}
		c.ok("enqueue", "q")
		c.worked(shown, "-c", "1")
		c.has(c.job(1), object{"result": value})
	}
	if err := os.Unsetenv("PYTHONUNBUFFERED"); err != nil { // t.Setenv puts it back
		t.Fatal(err)
	}
	c := &cli{t: t, db: "sqlite:" + t.TempDir() + "/test.db"}
	c.ok("enqueue", "q")
	c.worked(shown, "-c", "1")
	c.has(c.job(1), object{"result": "1"})
}

// writes takes what is written to it, whole calls of Write.
type writes chan string

func (w writes) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

func (w writes) next(t *testing.T) string {
	t.Helper()
	select {
	case text := <-w:
		return text
	case <-time.After(patience):
		t.Fatal("nothing is written")
		return ""
	}
}

// A process that is given a job and writes nothing may not flush: the log says so, once.
func TestWorkLinesNotesSilentProcesses(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	log := make(writes, 100)
	p := newProgram(&workFlags{argv: []string{"sh", "-c", "read -r line; read -r more; echo awake; cat"}}, os.Environ(), t.Context().Done())
	defer p.close()
	p.log = slog.New(slog.NewTextHandler(log, nil))
	pool := (&app{stderr: log}).newLinePool(p, &workFlags{concurrency: 1})
	defer pool.close()
	pool.silentAfter = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- pool.handle(ctx, &dibs.RawJob{ID: 1, Queue: "q", Kind: "k"}) }()
	if text := log.next(t); !strings.Contains(text, "has written nothing to stdout") || !strings.Contains(text, "it may not flush its output") {
		t.Errorf("the log says %s", text)
	}
	process := pool.seats[0].process
	pool.silentAfter = time.Hour // what is noted from here on, this test notes
	pool.noteSilence(process)    // it was noted
	process.give(&dibs.RawJob{ID: 2}, []byte("{}\n"))
	if text := log.next(t); text != "awake\n" {
		t.Errorf("the log says %s", text)
	}
	another := &linePool{program: p} // this pool has noted no process yet
	another.noteSilence(process)     // the process has written
	stop()
	<-ended
	select {
	case text := <-log:
		t.Errorf("the log also says %s", text)
	default:
	}
}
