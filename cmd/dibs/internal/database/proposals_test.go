//go:build unix

package database

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/words"
)

// next is the command that the doctor proposes for a finding.
func (c *cli) next(finding string) string {
	c.T.Helper()
	all, _ := c.doctor("--max-wait", "0s")
	for _, f := range all {
		if f.Name == finding {
			return f.Next
		}
	}
	c.T.Fatalf("the doctor does not find %s: %+v", finding, all)
	return ""
}

// lastAfter is the last line of a text, from some words on.
func (c *cli) lastAfter(before, text string) string {
	c.T.Helper()
	i := strings.LastIndex(text, before)
	if i < 0 {
		c.T.Fatalf("there is no %q in %s", before, text)
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
	c.OK("enqueue", "--kind=-k", "--max-attempts=1", "--", queue, "1")
	work := strings.NewReplacer("dibs work ", `"$DIBS_TEST_SELF" work -c 1 --until-empty `, "PROGRAM", "false").Replace(c.next("no_worker"))
	worker := exec.Command("sh", "-c", work)
	worker.Env = append(os.Environ(), clitest.AsCommand+"=1", "DIBS_DB="+c.DB)
	if r := c.Finished(worker); r.Code != cmdline.ExitOK {
		c.T.Errorf("%s: exit code %d: %s", work, r.Code, r.Err)
	}
	c.Has(c.Job(1), object{"state": "dead"})
	list := c.lastAfter("dibs ls", c.OK("failures"))
	for from, says := range map[string]string{c.next("dead"): "-k", "dibs ls" + list: "-k", "dibs requeue" + list + " --dry-run": "would requeue 1 job"} {
		if got := c.Shell(from); !strings.Contains(got, says) {
			c.T.Errorf("%s: %s", from, got)
		}
	}
	c.Shell(c.lastAfter("try with: ", c.OK("locks", "--", queue)))
	c.Has(c.Job(2), object{"state": "waiting", "queue": queue})
	c.OK("pause", "--", queue)
	shown, _, _ := strings.Cut(c.lastAfter("the queue is paused; '", c.OK("stats")), "' lets it go on")
	for _, resume := range []string{c.next("paused"), shown, c.lastAfter("Let it go on: ", c.OK("locks", "--", queue))} {
		c.OK("pause", "--", queue)
		c.Shell(resume)
		if got := c.OK("ls", "--", queue); strings.Contains(got, "paused") {
			c.T.Errorf("%s does not let the queue go on: %s", resume, got)
		}
	}
	c.OK("claim", "--", queue)
	c.OK("queue", "--concurrency=1", "--", queue)
	c.OK("enqueue", "--", queue)
	c.Shell(c.lastAfter("raise the limit: ", c.OK("locks", "--", queue)))
	if got := c.OK("queue", "--json", "--", queue); !strings.Contains(got, `"concurrency":2`) {
		c.T.Errorf("the limit is not raised: %s", got)
	}
	if got := c.Shell(words.Command("dibs ls", queue, "--state running")); !strings.Contains(got, "running") {
		c.T.Errorf("the running job is not listed: %s", got)
	}
	c.OK("schedule", "add", "--every=1h", "--", queue)
	if got := c.Shell(words.Command("dibs schedule show", queue)); !strings.Contains(got, "1h") {
		c.T.Errorf("the schedule is not shown: %s", got)
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
	var files []string
	for _, pattern := range []string{"../../*.go", "../*/*.go", "../../../../internal/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
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
