// Package workers runs the workers of this folder, each in its own language.
package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/dibs-queue/dibs" // Go runs the tests again if a file is added to its folder, which needs.Sources cannot read
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// programs are the workers, each with its interpreter.
var programs = map[string]string{
	"worker.py": "python3", "worker.js": "node", "worker.php": "php", "worker.rb": "ruby", "worker.pl": "perl", "worker.sh": "sh",
}

// eachLanguage runs a test with the command of each worker.
func eachLanguage(t *testing.T, test func(t *testing.T, command []string)) {
	for file, interpreter := range programs {
		t.Run(interpreter, func(t *testing.T) {
			t.Parallel()
			needs.Program(t, interpreter)
			test(t, []string{interpreter, file})
		})
	}
}

// transcript is the one that docs/lines.md shows: lines to a process, and its answers.
func transcript(t *testing.T) (jobs []byte, answers []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/lines.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(page), "**What came before**") // none of the workers asks for that
	for _, m := range regexp.MustCompile(`(?m)^([<>]) (\{.*\})$`).FindAllStringSubmatch(text, -1) {
		if m[1] == ">" {
			jobs = append(append(jobs, m[2]...), '\n')
		} else {
			answers = append(answers, m[2])
		}
	}
	if len(answers) < 5 {
		t.Fatalf("the transcript has only %d answers", len(answers))
	}
	return jobs, answers
}

// Every worker answers as the transcript does, and ends with its stdin.
func TestWorkersAnswerAsTheProtocolSays(t *testing.T) {
	jobs, want := transcript(t)
	eachLanguage(t, func(t *testing.T, command []string) {
		worker := exec.CommandContext(t.Context(), command[0], command[1:]...)
		worker.Stdin = bytes.NewReader(jobs)
		worker.Env = append(os.Environ(), "LC_ALL=C")
		out, err := worker.Output()
		if err != nil {
			t.Fatalf("it ends with %v", err)
		}
		got := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(got) != len(want) {
			t.Fatalf("it writes %d lines, want %d:\n%s", len(got), len(want), out)
		}
		for i := range got {
			if !reflect.DeepEqual(value(t, got[i]), value(t, want[i])) {
				t.Errorf("it answers %s, want %s", got[i], want[i])
			}
		}
	})
}

func value(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// queue is the command on a database of its own.
type queue struct {
	t    *testing.T
	dibs string
	env  []string
}

func (q *queue) run(input string, args ...string) string {
	q.t.Helper()
	cmd := exec.CommandContext(q.t.Context(), q.dibs, args...)
	cmd.Env, cmd.Stdin = q.env, strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		q.t.Fatalf("dibs %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// job is what a test looks at in a job.
type job struct {
	State   string
	Attempt int
	Excused int
	Payload any
	Result  any
	Errors  []struct{ Error string }
}

func (q *queue) job(id int) (j job) {
	q.t.Helper()
	if err := json.Unmarshal([]byte(q.run("", "show", fmt.Sprint(id), "--json")), &j); err != nil {
		q.t.Fatal(err)
	}
	return j
}

// await waits until the queue has so many jobs in that state.
func (q *queue) await(state string, n int) {
	q.t.Helper()
	want := fmt.Sprintf("%q:%d,", state, n)
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(q.run("", "stats", "demo", "--json"), want); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			q.t.Fatalf("the queue does not have %s:\n%s", want, q.run("", "stats", "demo"))
		}
	}
}

func TestWorkersInEveryLanguage(t *testing.T) {
	needs.Long(t)
	dibs := needs.Build(t, "../../cmd/dibs")
	for name, db := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "demo.db") },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			eachLanguage(t, func(t *testing.T, command []string) {
				worksAndStops(&queue{t, dibs, append(os.Environ(), "DIBS_DB="+db(t), "DIBS_TABLE=")}, command)
			})
		})
	}
}

// worksAndStops has a worker do jobs of every kind, and ends it by SIGTERM.
func worksAndStops(q *queue, command []string) {
	large := `{"text": "` + strings.Repeat("größer 🙂 \\\" ", 20_000) + `", "none": {}, "list": [1, null, "a\u0000b"]}`
	q.run("", "migrate")
	q.run("", "enqueue", "demo", `{"to": "änn@example.com", "n": [1, 2.5, true]}`, "--kind", "echo")
	q.run(large, "enqueue", "demo", "-", "--kind", "echo")
	for _, kind := range []string{"flaky", "crash", "unknown", "busy"} {
		q.run("", "enqueue", "demo", "--kind", kind, "--max-attempts", "1")
	}
	var log bytes.Buffer
	worker := exec.CommandContext(q.t.Context(), q.dibs, append([]string{"work", "demo", "--lines", "--concurrency", "2", "--"}, command...)...)
	worker.Env, worker.Stderr = q.env, &log
	if err := worker.Start(); err != nil {
		q.t.Fatal(err)
	}
	q.await("completed", 2)
	q.await("dead", 3)
	q.await("scheduled", 1)
	q.run("", "enqueue", "demo", `"after the crash"`, "--kind", "echo")
	q.await("completed", 3)
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		q.t.Error(err)
	}
	if err := worker.Wait(); err != nil {
		q.t.Errorf("dibs work ends with %v", err)
	}
	if strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "it crashed\n") {
		q.t.Errorf("the log says\n%s", log.String())
	}
	for _, id := range []int{1, 2, 7} {
		if j := q.job(id); j.State != "completed" || j.Attempt-j.Excused != 1 || !reflect.DeepEqual(j.Result, j.Payload) {
			q.t.Errorf("job %d is %s after %d attempts, and its result is not its payload", id, j.State, j.Attempt)
		}
	}
	for id, want := range map[int]string{3: "the mail server is down, größtenteils", 4: "the process ended without an answer: exit code 1: it crashed", 5: "there is no such kind"} {
		if j := q.job(id); j.State != "dead" || j.Attempt-j.Excused != 1 || j.Errors[0].Error != want {
			q.t.Errorf("job %d is %s after %d attempts, with %v; want %q", id, j.State, j.Attempt, j.Errors, want)
		}
	}
	if j := q.job(6); j.State != "waiting" || j.Attempt != j.Excused {
		q.t.Errorf("the job that was delayed is %+v", j)
	}
	q.run("", "check")
}

// The shell blocks of docs/lines.md do what the page says.
func TestTheCommandsOfThePageWork(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	needs.Program(t, "python3")
	page, err := os.ReadFile("../../docs/lines.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("there are none")
	}
	for _, m := range blocks {
		script := strings.ReplaceAll(string(m[1]), "sqlite:jobs.db", "sqlite:"+dir+"/jobs.db")
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", `dibs() { "$0" "$@"; }; `+script, needs.Build(t, "../../cmd/dibs"))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), `{"to": "ann@example.com"}`) {
			t.Errorf("%v:\n%s", err, out)
		}
	}
}

// What these workers show is how short one is.
func TestWorkersAreShort(t *testing.T) {
	for file := range programs {
		text, err := os.ReadFile(file)
		if n := bytes.Count(text, []byte("\n")); err != nil || n > 30 {
			t.Errorf("%s has %d lines, want at most 30: %v", file, n, err)
		}
	}
}
