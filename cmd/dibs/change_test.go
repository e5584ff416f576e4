package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
)

func TestDryRunsChangeNothing(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n4\n5\n", "enqueue", "q", "--lines")
		c.ok("enqueue", "p")
		c.ok("cancel", "1", "2", "6")
		c.ok("claim", "q")
		before := c.ok("ls", "--all", "--json") + c.ok("ls", "--state", "cancelled", "--json")
		for _, test := range []struct {
			args []string
			text string
			ids  string
		}{
			{[]string{"cancel", "3", "4"}, "would cancel 1 job\nwould ask the workers of 1 running job to stop\n", "[3 4]"},
			{[]string{"cancel", "--queue", "q"}, "would cancel 2 jobs\nwould ask the workers of 1 running job to stop\n", "[5 4 3]"},
			{[]string{"cancel", "--state", "waiting"}, "would cancel 2 jobs\n", "[5 4]"},
			{[]string{"requeue", "1", "2"}, "would requeue 2 jobs\n", "[1 2]"},
			{[]string{"requeue", "--state", "cancelled", "--queue", "p"}, "would requeue 1 job\n", "[6]"},
			{[]string{"edit", "5", "--priority", "1"}, "would change 1 job\n", "[5]"},
			{[]string{"edit", "--queue", "q", "--priority", "1"}, "would change 2 jobs\n", "[5 4]"},
			{[]string{"prune", "--older-than", "0s", "--queue", "p"}, "would delete 1 job\n", "[6]"},
			{[]string{"prune", "--older-than", "1h", "--state", "cancelled"}, "would delete 0 jobs\n", "[]"},
		} {
			args := append(test.args, "--dry-run")
			if got := c.ok(args...); got != test.text {
				c.t.Errorf("dibs %v writes %q, want %q", args, got, test.text)
			}
			got := []int{}
			for _, row := range c.rows(c.ok(append(args, "--json")...)) {
				got = append(got, int(row["id"].(float64)))
			}
			if fmt.Sprint(got) != test.ids {
				c.t.Errorf("dibs %v --json names %v, want %s", args, got, test.ids)
			}
		}
		c.refused(c.run("", "cancel", "1", "99", "--dry-run"), exitNotFound, []string{"cancel"}, "2 of 2 jobs were not cancelled (first: 1)")
		if after := c.ok("ls", "--all", "--json") + c.ok("ls", "--state", "cancelled", "--json"); after != before {
			c.t.Errorf("something has changed:\n%s%s", before, after)
		}
	})
}

// A change of all queues asks for a confirmation, or needs --all.
func TestChangesOfAllQueuesAreConfirmed(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "q")
		c.ok("enqueue", "p")
		for _, args := range [][]string{
			{"cancel", "--state", "waiting"},
			{"edit", "--state", "waiting", "--priority", "1"},
			{"requeue", "--state", "dead"},
		} {
			c.fails(exitUsage, "", args, "jobs of all queues", "--all")
			out := c.answer("n\n", args...)
			if want := "all 2 waiting jobs, of all queues? [y/N]"; args[0] != "requeue" && (out.code != exitFailure || !strings.Contains(out.err, want)) {
				c.t.Errorf("dibs %v: exit code %d\n%s", args, out.code, out.err)
			}
		}
		c.has(c.job(1), object{"state": "waiting", "priority": 255})
		if r := c.answer("y\n", "cancel", "--state", "waiting"); r.code != exitOK || r.out != "cancelled 2 jobs\n" {
			c.t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
		if got := c.ok("requeue", "--state", "cancelled", "--all"); got != "requeued 2 jobs\n" {
			c.t.Errorf("dibs requeue --all writes %q", got)
		}
		if got := c.ok("cancel", "--all"); got != "cancelled 2 jobs\n" {
			c.t.Errorf("dibs cancel --all writes %q", got)
		}
	})
}

// answer runs the command as if a person typed on a terminal.
func (c *cli) answer(typed string, args ...string) runResult {
	c.t.Helper()
	var out, err bytes.Buffer
	a := newApp(strings.NewReader(typed), &out, &err)
	a.inTTY, a.errTTY = true, true
	root := newRootCmd(a)
	root.SetArgs(append([]string{"--db", c.db}, args...))
	code := exitOK
	if e := root.ExecuteContext(c.t.Context()); e != nil {
		code = a.fail(c.t.Context(), e)
	}
	return runResult{code, out.String(), err.String()}
}

// Ids from stdin are changed in batches as they come, however many there are.
func TestIDsFromStdinComeInBatches(t *testing.T) {
	onEach(t, func(c *cli) {
		const n = dibs.MaxBatch + 20
		c.feed(strings.Repeat("x\n", n), "enqueue", "q", "--lines")
		var ids strings.Builder
		for i := range n {
			fmt.Fprintln(&ids, i+1)
		}
		args := []string{"cancel", "-"}
		r := c.run(ids.String()+"\n one more\n", args...)
		c.refused(r, exitPartial, args,
			fmt.Sprintf(`stdin:%d: id: must be a job's number, got "one"; of the 10,000 jobs before that: cancelled 10,000 jobs`, n+2), "blanks or line ends")
		c.has(c.stats("q"), object{"cancelled": dibs.MaxBatch, "waiting": 20})
		last := fmt.Sprint(n - 1)
		if got := c.feed("\t"+last+" "+fmt.Sprint(n)+"\r\n", "edit", "-", "--priority", "3"); got != "changed 2 jobs\n" {
			c.t.Errorf("dibs edit writes %q", got)
		}
		c.fails(exitUsage, last+"\n"+strings.Repeat("9", 200_000), args, `stdin:2: id: must be a job's number, got "999`)
		c.fails(exitUsage, last+"\n1.5\n", args, `stdin:2: id: must be a job's number, got "1.5"`)
		c.has(c.stats("q"), object{"cancelled": dibs.MaxBatch, "waiting": 20})
	})
}

// The first ids are changed before the others have come.
func TestIDsFromStdinAreNotGathered(t *testing.T) {
	c := onSQLite(t)
	c.feed("1\n", "enqueue", "q", "--lines")
	ids, feed := io.Pipe()
	out, done := io.Pipe()
	go func() {
		run(t.Context(), []string{"--db", c.db, "--json", "cancel", "-"}, ids, done, io.Discard)
		done.Close()
	}()
	go func() {
		for i := range dibs.MaxBatch {
			fmt.Fprintln(feed, i+1)
		}
	}()
	defer time.AfterFunc(30*time.Second, func() { done.CloseWithError(errors.New("no id is worked off")) }).Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != `{"id":1,"state":"cancelled"}`+"\n" {
		t.Errorf("got %q, %v", line, err)
	}
	feed.Close()
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
}

// A batch of ended jobs is of one state. What was put back after it was listed, and has ended anew, ended after all that
// the batch holds, and so is passed over; jobs of the next state, which are listed later, may have ended after it.
func TestBatchesOfEndedJobsAreOfOneState(t *testing.T) {
	onEach(t, func(c *cli) {
		c.feed("1\n2\n3\n4\n", "enqueue", "q", "--lines")
		c.ok("cancel", "1", "2")
		c.run("", "work", "q", "--until-empty", "--", "true")
		db, err := open.Database(c.t.Context(), open.URL(c.db), open.Options{})
		if err != nil {
			c.t.Fatal(err)
		}
		defer db.Close()
		var batches [][]dibs.State
		s := selection{queue: "q", ended: true}
		err = s.each(c.t.Context(), db, nil, func(list []chosen) error {
			var states []dibs.State
			for _, j := range list {
				states = append(states, j.state)
			}
			batches = append(batches, states)
			return nil
		})
		want := [][]dibs.State{{dibs.Completed, dibs.Completed}, {dibs.Cancelled, dibs.Cancelled}}
		if err != nil || !reflect.DeepEqual(batches, want) {
			c.t.Errorf("the batches are %v, %v; want %v", batches, err, want)
		}
	})
}
