//go:build unix

package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/needs"
	"go.uber.org/goleak"
)

// lineWorker is a program in shell for 'dibs work --lines'. For each job it sets id, token,
// attempt, kind and payload, as JSON, and runs the given commands.
func lineWorker(commands string) []string {
	return []string{"--", "sh", "-c", `
		while IFS= read -r line; do
			id=${line#'{"id":'} id=${id%%,*} payload=${line#*'"payload":'} payload=${payload%\}}
			token=${line#*'"token":"'} token=${token%%\"*}
			attempt=${line#*'"attempt":'} attempt=${attempt%%,*}
			kind=${line#*'"kind":"'} kind=${kind%%\"*}
			` + commands + `
		done`}
}

const answer = `echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":[$$,$payload]}"`

// worked runs a worker with --lines until the queue is empty.
func (c *cli) worked(commands string, flags ...string) string {
	c.T.Helper()
	return c.End(c.Work(append(append([]string{"q", "--lines", "--until-empty"}, flags...), lineWorker(commands)...)...))
}

// pidOf is the id of the process that has completed a job: the first part of its result.
func (c *cli) pidOf(id int) any {
	c.T.Helper()
	result, ok := c.Job(id)["result"].([]any)
	if !ok {
		c.T.Fatalf("job %d has no such result: %v", id, c.Job(id))
	}
	return result[0]
}

func TestWorkLinesTakesEveryEnding(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		kinds := []string{"completed", "retry", "after", "snooze", "later", "release", "dead", "cancelled", "silent"}
		for _, kind := range kinds {
			c.OK("enqueue", "q", `"p"`, "--kind", kind, "--max-attempts", "2")
		}
		c.OK("queue", "q", "--backoff", "1ms")
		// The first try of each kind, whichever attempt it is: one that was claimed ahead and given back is not a try.
		log := c.worked(`try=1; mkdir "`+c.T.TempDir()+`/$kind" 2>/dev/null || try=2
			case $kind-$try in
			retry-1)     echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"retry\",\"error\":\"größer\"}" ;;
			after-1)     echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"retry\",\"error\":\"soon\",\"delay\":0.001}" ;;
			snooze-1)    echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"snooze\",\"delay\":\"1ms\"}" ;;
			later-1)     echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"snooze\"}" ;;
			release-1)   echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"release\"}" ;;
			dead-1)      echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"dead\",\"error\":\"hopeless\"}" ;;
			cancelled-1) echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"cancelled\",\"error\":\"no more\"}" ;;
			silent-*)    echo "{\"ending\":\"completed\",\"token\":\"$token\",\"id\":\"$id\"}" ;;
			*)           `+answer+` ;;
			esac`, "-c", "2", "--snooze", "0s")
		if !strings.Contains(log, "cancelled=1") || strings.Contains(log, "finished_by_handler") {
			c.T.Errorf("the worker counts another ending: %s", log)
		}
		for i, want := range []object{
			{"state": "completed", "counted": 1},
			{"state": "completed", "counted": 2},
			{"state": "completed", "counted": 2},
			{"state": "completed", "counted": 1, "again": true},
			{"state": "completed", "counted": 1, "again": true},
			{"state": "completed", "counted": 1, "again": true},
			{"state": "dead", "counted": 1},
			{"state": "cancelled", "counted": 1},
			{"state": "completed", "counted": 1, "result": nil},
		} {
			job := c.Job(i + 1)
			excused, _ := job["excused"].(float64) // perhaps also because it was claimed ahead and given back
			job["counted"] = job["attempt"].(float64) - excused
			if want["again"] == true {
				job["again"] = excused > 0
			}
			c.Has(job, want)
		}
		for id, want := range map[int]string{2: "größer", 3: "soon", 7: "hopeless", 8: "no more"} {
			if got := lastError(c.Job(id)); got != want {
				c.T.Errorf("job %d failed with %q, want %q", id, got, want)
			}
		}
	})
}

func TestWorkLinesGivesTheJob(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		payload := "{\"a\" :\n \"ä\\u0000<&>\u2028\", \"n\": 12345678901234567890}"
		c.Feed(payload, "enqueue", "q", "-", "--kind", "k", "--group", "g", "--max-attempts", "9", "--metadata", `{"payload": 1}`)
		c.worked(`echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":[$line,\"$DIBS_LINES $DIBS_CONCURRENCY $DIBS_DB\"]}"`, "-c", "3")
		var got []any
		if err := json.Unmarshal([]byte(c.OK("show", "1", "--result")), &got); err != nil {
			c.T.Fatal(err)
		}
		line := got[0].(map[string]any)
		c.Has(line, object{"id": 1, "queue": "q", "kind": "k", "attempt": 1, "max_attempts": 9, "group": "g", "metadata": object{"payload": 1}})
		c.HasNot(line, "excused", "errors", "key", "schedule", "tick")
		if raw := c.OK("show", "1", "--result"); !strings.Contains(raw, `"payload":{"a":"ä\u0000<&>\u2028","n":12345678901234567890}}`) {
			c.T.Errorf("the payload is not at the end as it was enqueued: %s", raw)
		}
		if env := "1 1 " + c.DB; got[1] != env {
			c.T.Errorf("the environment is %q, want %q", got[1], env)
		}
	})
}

// A job's answer that is wrong fails that job, with what is wrong. A line that leaves open which
// job it means ends the process, too.
func TestWrongAnswersOfProcessesAreRefused(t *testing.T) {
	needs.Long(t)
	// ID stands for the job's id and token, and LONE for its id alone.
	long := fmt.Sprintf(`{ID,"ending":"completed","result":"%s"}`, strings.Repeat("x", 1<<20))
	deep := func(n int) string {
		return fmt.Sprintf(`{ID,"ending":"completed","result":%s1%s}`, strings.Repeat("[", n), strings.Repeat("]", n))
	}
	for _, test := range []struct {
		line, want string
		goesOn     bool // the process is kept
	}{
		{`{ID,"ending":"done"}`, `the process answered wrongly: ending: must be completed, retry, snooze, release, dead or cancelled, got "done"`, true},
		{`{ID,"ending":"retry","result":1}`, "the process answered wrongly: result: goes with completed only, not with retry", true},
		{`{ID,"ending":"retry","delay":-1}`, "the process answered wrongly: delay: must not be negative", true},
		{`{ID,"ending":"snooze","delay":"soon"}`, `the process answered wrongly: delay: "soon" is no duration`, true},
		{`{ID,"ending":"dead","delay":1}`, "the process answered wrongly: delay: goes with retry or snooze only, not with dead", true},
		{`{ID,"ending":"retry","add":[{}]}`, "the process answered wrongly: add: goes with completed only, not with retry", true},
		{`{ID,"ending":"completed","add":{}}`, "the process answered wrongly: add: must be a list, and is an object", true},
		{`{ID,"ending":"completed","add":[{},7]}`, "the process answered wrongly: add[1]: is not a JSON object of a job", true},
		{`{ID,"ending":"completed","add":[{},{"delay":"soon"}]}`, `the process answered wrongly: add[1].delay: "soon" is no duration`, true},
		{`{ID,"ending":"completed","add":[{},{"knd":"k"}]}`, `the process answered wrongly: add[1].knd: is an unknown field`, true},
		{`{ID,"ending":"completed","add":[{},{"priority":-1}]}`, "the process answered wrongly: add[1].priority: must be 0 to 32767, got -1", true},
		{`{ID,"ending":"completed","add":[` + strings.Repeat("{},", 10_000) + `{}]}`, "the process answered wrongly: add: has 10001 items, the limit is 10000", true},
		{`{ID,"ending":"completed","reslt":1}`, `the process answered wrongly: reslt: is an unknown field`, true},
		{`{ID,"ending":"completed","ending":"dead"}`, `the process answered wrongly: ending: is given twice`, true},
		{`{ID,"ending":"completed","id":2}`, `the process wrote what is no answer: "id" is given twice`, false},
		{`{ID,"ending":"completed","Id":7}`, `the process wrote what is no answer: "id" is given twice`, false},
		{`{ID,"ending":"completed","token":"6d4c8b1f0e2a497395c7d1a3b5f80e62"}`, `the process answered wrongly: token: is given twice`, true},
		{`{ID,"ending":"completed","progress":{"done":1}}`, `the process answered wrongly: it has both "ending" and "progress"`, true},
		{`{ID,"ending":1}`, `the process answered wrongly: ending: must be a string, and is a number`, true},
		{"{ID,\"ending\":\"completed\",\"result\":\"\xff\"}", "the process answered wrongly: it is not valid UTF-8", true},
		{long, "the process answered wrongly: result: is 1048578 bytes, the limit is 1048576", true},
		{strings.Replace(long, "x", strings.Repeat("x", 4<<20), 1), "the process wrote a line of more than 4194304 bytes", false},
		{deep(10001), "the process wrote what is no answer: invalid character '[' exceeded max depth", false},
		{`{ID,"ending":"completed"`, "the process wrote what is no answer: it begins with { and does not end on its line: write an answer as one line of JSON, not indented, and logs to stderr: {\"id\":1,", false},
		{`{ID,"ending":"completed"} {}`, "the process wrote what is no answer: it is followed by more than its line should hold", false},
		{"{ID,\"ending\":\"comp\x00leted\"}", "the process wrote what is no answer: invalid character '\\x00' in string literal", false},
		{`{LONE}`, `the process wrote what is no answer: "ending" is missing`, false},
		{`{ID}`, `the process answered wrongly: "ending" is missing: completed, retry`, true},
		{`{LONE,"ending":"completed"}`, `the process answered wrongly: "token" is missing: give the one of the job's line`, true},
		{`{LONE,"token":"17","ending":"completed"}`, `the process answered wrongly: token: a token must be 32 hexadecimal digits, got "17"`, true},
		{`{LONE,"token":1,"ending":"completed"}`, `the process answered wrongly: token: must be`, true},
		{`{ID,"progress":{"done":"x"}}`, `the process answered wrongly: progress.done: must be`, true},
		{`{ID,"progress":null}`, `the process answered wrongly: it has neither "ending" nor "progress"`, true},
		{`{ID,"step":"charge","ending":"completed"}`, `the process answered wrongly: it has more than one of "ending", "progress", "step" and "before"`, true},
		{`{"token":"00000000000000000000000000000001","before":{}}`, `the process wrote what is no answer: "id" is missing`, false},
		{`{LONE,"endng":"completed"}`, `the process wrote what is no answer: endng: is an unknown field`, false},
		{`{ID,"endng":"completed"}`, `the process answered wrongly: endng: is an unknown field`, true},
		{`{"ending":"completed"}`, `the process wrote what is no answer: "id" is missing`, false},
		{`{"id":"x","ending":"completed"}`, `the process wrote what is no answer: id: must be an id as an earlier line gave it, got "x"`, false},
		{`{"id":1.5,"ending":"completed"}`, `the process wrote what is no answer: id: must be an id`, false},
		{`{"id":9223372036854775808,"ending":"completed"}`, `the process wrote what is no answer: id: must be an id`, false},
	} {
		t.Run(term.Clip(test.line, 60), func(t *testing.T) { refuses(t, test.line, test.want, test.goesOn) })
	}
}

// refuses expects the first job of a process that writes a line to fail with an error.
func refuses(t *testing.T, line, want string, goesOn bool) {
	t.Helper()
	c := onSQLite(t)
	c.Feed(strings.Repeat("1\n", 2), "enqueue", "q", "--jsonl", "--max-attempts", "1")
	path := c.Write("line", strings.NewReplacer("LONE", `"id":1`, "ID", `"id":1,"token":"TOKEN"`).Replace(line)+"\n")
	c.worked(`pid=$$; if [ $id = 1 ]; then echo $pid >"`+path+`.pid"; sed "s/TOKEN/$token/" "`+path+`"; else read -r pid <"`+path+`.pid"; echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":$(($$ == pid))}"; fi`, "-c", "1")
	c.Has(c.Job(1), object{"state": "dead"})
	if got := lastError(c.Job(1)); !strings.HasPrefix(got, want) {
		t.Errorf("the error is %q, want %q", term.Clip(got, 200), want)
	}
	kept := 0
	if goesOn {
		kept = 1
	}
	c.Has(c.Job(2), object{"state": "completed", "result": kept})
}

// Lines about jobs that the process does not have are noticed, and change nothing.
func TestWorkLinesIgnoresAnswersForOtherJobs(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n", "enqueue", "q", "--jsonl", "--max-attempts", "1")
		c.OK("enqueue", "other", "3")
		log := c.worked(`
			echo "{\"id\":3,\"ending\":\"dead\"}"; echo "{\"id\":777,\"progress\":{\"done\":1}}"
			echo "{\"id\":$id,\"token\":\"$token\",\"progress\":{\"done\":-1}}"
			`+answer+`; echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"dead\"}"`, "-c", "1")
		c.once(1)
		c.once(2)
		c.Has(c.Job(3), object{"state": "waiting", "attempt": 0})
		if c.pidOf(1) != c.pidOf(2) {
			c.T.Error("the process was replaced")
		}
		for _, want := range []string{"is ignored\" job=3 ", "is ignored\" job=777 ", "is ignored\" job=1 ending=dead", "progress.done: must not be negative, got -1"} {
			if !strings.Contains(log, want) {
				c.T.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
	})
}

func TestWorkLinesPassesLogsOn(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	script := `
		printf 'plain\n\n{"level":"info"}\n\033[31mred\007\n[1]\r\n17\n'; echo "to stderr" >&2
		printf '\357\273\277{"id":%s,"token":"%s","ending":"completed"}\n' $id $token
		head -c 100000 /dev/zero | tr '\0' x; echo; printf 'half'`
	c.OK("enqueue", "q")
	log := "\n" + c.worked(script, "-c", "1")
	for _, want := range []string{"plain\n", "{\"level\":\"info\"}\n", `\u001b[31mred\u0007` + "\n", "[1]\n", "17\n", "to stderr\n", strings.Repeat("x", runner.MaxLog) + "… (cut)\n", "half\n"} {
		if !strings.Contains(log, "\n"+want) {
			t.Errorf("the log lacks %q:\n%.2000s", term.Clip(want, 100), log)
		}
	}
	if n := strings.Count(log, "xxxx"); n > runner.MaxLog/4 {
		t.Errorf("a cut line goes on: %d bytes of it are shown", 4*n)
	}
	c.Has(c.Job(1), object{"state": "completed"})
	c.OK("enqueue", "q")
	seen := 0
	for _, line := range c.Rows(c.worked(script, "-c", "1", "--json")) {
		if line["msg"] == "output of a process" && slices.Contains([]any{"plain", `\u001b[31mred\u0007`, "to stderr"}, line["line"]) && line["pid"].(float64) > 0 {
			seen++
		}
	}
	if seen != 3 {
		t.Errorf("%d of 3 lines are in the log as JSON", seen)
	}
}

func TestWorkLinesRefusesOtherFlags(t *testing.T) {
	needs.Race(t)
	c := onSQLite(t)
	for _, test := range []struct{ flags, want string }{
		{"--lines --text", "--text goes with a program for each job"},
		{"--shared", "--shared and --max-jobs go with --lines only"},
		{"--max-jobs 3", "--shared and --max-jobs go with --lines only"},
		{"--lines --max-jobs -1", "max-jobs: must not be negative, got -1"},
		{"--lines --processes 2", "--processes goes with --shared only"},
		{"--lines --shared --processes 0", "processes: must be at least 1, got 0"},
	} {
		c.Fails(cmdline.ExitUsage, "", append(append([]string{"work", "q"}, strings.Fields(test.flags)...), "--", "cat"), test.want)
	}
}

// A row of an adopted table has its own id in the field key; the answer names the number.
func TestWorkLinesOnAdoptedTables(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	for name, mapping := range map[string]string{"token": clitest.ByToken, "start": clitest.ByStart, "side table": clitest.BySide} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(c *cli) {
				x := adoptTickets(c, mapping)
				script := lineWorker(`key=${line#*'"key":'} key=${key%%,\"*}
					case $key-$0 in
					'"A-1"-start') echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":$key}" ;;
					'"A-1"-'*) echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"dead\",\"error\":\"broken\"}" ;;
					*) echo "{\"id\":$id,\"token\":\"$token\",\"ending\":\"completed\",\"result\":$key}" ;;
					esac`)
				log := c.End(c.Work(x.WithTable(append(append([]string{"work", "--lines", "--until-empty", "-c", "2"}, script...), name)...)[1:]...))
				want := map[string]string{
					"token":      `<b> & "c"=done A-1=failed 17=done d=done`,
					"start":      `<b> & "c"=done A-1=done 17=done d=done`,
					"side table": `<b> & "c"=done A-1=new 17=done d=done`,
				}[name]
				if got := x.Status(); got != want {
					t.Errorf("got %s, want %s\n%s", got, want, log)
				}
				var result string
				if err := x.SQL.QueryRow("select result from tickets where ref = 'd'").Scan(&result); err != nil || strings.Trim(result, `"`) != "d" {
					t.Errorf("result %q, %v", result, err)
				}
			})
		})
	}
}

// Not parallel: goroutines of other tests would be found.
func TestWorkLinesLeavesNoGoroutine(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	c := newCLI(t, "sqlite:"+t.TempDir()+"/test.db")
	before := goleak.IgnoreCurrent()
	c.Feed(strings.Repeat("1\n", 40), "enqueue", "q", "--jsonl", "--max-attempts", "1")
	c.worked(`case $id in
		*1) exit 3 ;;
		*2) echo '{' ;;
		*3) exec >&- ; sleep 3 ;;
		*4) sleep 30 ;;
		*) `+answer+` ;; esac`, "-c", "4", "--timeout", "2s", "--grace", "10ms", "--max-jobs", "7")
	c.Has(c.Stats("q"), object{"completed": 24, "dead": 16})
	goleak.VerifyNone(t, before)
}
