//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/words"
)

// next is the command that the doctor proposes for a finding.
func (c *cli) next(finding string) string {
	c.t.Helper()
	all, _ := c.doctor("--max-wait", "0s")
	for _, f := range all {
		if f.Name == finding {
			return f.Next
		}
	}
	c.t.Fatalf("the doctor does not find %s: %+v", finding, all)
	return ""
}

// lastAfter is the last line of a text, from some words on.
func (c *cli) lastAfter(before, text string) string {
	c.t.Helper()
	i := strings.LastIndex(text, before)
	if i < 0 {
		c.t.Fatalf("there is no %q in %s", before, text)
	}
	line, _, _ := strings.Cut(text[i+len(before):], "\n")
	return line
}

// The commands that dibs proposes work for a queue of any name: none is taken for a flag.
func TestProposedCommandsTakeNoQueueForAFlag(t *testing.T) {
	needs.Long(t)
	for _, queue := range []string{"--db=sqlite:EVIL", "-x", "--help", "-x:3", "-x:max=2", "--", "-it's", "plain"} {
		t.Run(queue, func(t *testing.T) {
			c := onSQLite(t)
			evil := filepath.Join(t.TempDir(), "evil.db")
			c.obeysFor(strings.Replace(queue, "EVIL", evil, 1))
			if _, err := os.Stat(evil); err == nil {
				t.Error("the name of the queue was taken for the database's")
			}
		})
	}
}

func (c *cli) obeysFor(queue string) {
	c.ok("enqueue", "--kind=-k", "--max-attempts=1", "--", queue, "1")
	work := strings.NewReplacer("dibs work ", `"$DIBS_TEST_SELF" work -c 1 --until-empty `, "PROGRAM", "false").Replace(c.next("no_worker"))
	worker := exec.Command("sh", "-c", work)
	worker.Env = append(os.Environ(), asCommand+"=1", "DIBS_DB="+c.db)
	if r := c.finished(worker); r.code != exitOK {
		c.t.Errorf("%s: exit code %d: %s", work, r.code, r.err)
	}
	c.has(c.job(1), object{"state": "dead"})
	list := c.lastAfter("dibs ls", c.ok("failures"))
	for from, says := range map[string]string{c.next("dead"): "-k", "dibs ls" + list: "-k", "dibs requeue" + list + " --dry-run": "would requeue 1 job"} {
		if got := c.shell(from); !strings.Contains(got, says) {
			c.t.Errorf("%s: %s", from, got)
		}
	}
	c.shell(c.lastAfter("try with: ", c.ok("locks", "--", queue)))
	c.has(c.job(2), object{"state": "waiting", "queue": queue})
	c.ok("pause", "--", queue)
	shown, _, _ := strings.Cut(c.lastAfter("the queue is paused; '", c.ok("stats")), "' lets it go on")
	for _, resume := range []string{c.next("paused"), shown, c.lastAfter("Let it go on: ", c.ok("locks", "--", queue))} {
		c.ok("pause", "--", queue)
		c.shell(resume)
		if got := c.ok("ls", "--", queue); strings.Contains(got, "paused") {
			c.t.Errorf("%s does not let the queue go on: %s", resume, got)
		}
	}
	c.ok("claim", "--", queue)
	c.ok("queue", "--concurrency=1", "--", queue)
	c.ok("enqueue", "--", queue)
	c.shell(c.lastAfter("raise the limit: ", c.ok("locks", "--", queue)))
	if got := c.ok("queue", "--json", "--", queue); !strings.Contains(got, `"concurrency":2`) {
		c.t.Errorf("the limit is not raised: %s", got)
	}
	if got := c.shell(command("dibs ls", queue, "--state running")); !strings.Contains(got, "running") {
		c.t.Errorf("the running job is not listed: %s", got)
	}
	c.ok("schedule", "add", "--every=1h", "--", queue)
	if got := c.shell(command("dibs schedule show", queue)); !strings.Contains(got, "1h") {
		c.t.Errorf("the schedule is not shown: %s", got)
	}
}

// proposal matches a command of dibs whose first argument is put in by hand.
var proposal = regexp.MustCompile(`dibs (resume|pause|ls|queue|enqueue|claim|failures|stats|locks|work|schedule [a-z]+) ("|%s|%v|%q)`)

// Text that names a queue in a command goes through one of the two functions that make it safe.
func TestNoProposalIsMadeByHand(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string][2]string{
		"emails":  {"dibs ls emails --state dead", "dibs work emails -- PROGRAM"},
		"a b":     {"dibs ls 'a b' --state dead", "dibs work 'a b' -- PROGRAM"},
		"--db=x":  {"dibs ls --state dead -- --db=x", "dibs work --queue=--db=x:1 -- PROGRAM"},
		"-a b;rm": {"dibs ls --state dead -- '-a b;rm'", "dibs work --queue='-a b;rm:1' -- PROGRAM"},
	} {
		if got := [2]string{words.Command("dibs ls", queue, "--state dead"), words.StartWorker(queue)}; got != want {
			t.Errorf("queue %q: %q, want %q", queue, got, want)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "words/words.go") { // the latter has the functions
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if proposal.MatchString(line) {
				t.Error(fmt.Sprintf("%s:%d", file, i+1), "puts a name behind a command: use words.Command")
			}
		}
	}
}
