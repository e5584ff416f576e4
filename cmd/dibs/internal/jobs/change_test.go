package jobs

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
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/open"
)

func TestDryRunsChangeNothing(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n4\n5\n", "enqueue", "q", "--lines")
		c.OK("enqueue", "p")
		c.OK("cancel", "1", "2", "6")
		c.OK("claim", "q")
		before := c.OK("ls", "--all", "--json") + c.OK("ls", "--state", "cancelled", "--json")
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
			if got := c.OK(args...); got != test.text {
				c.T.Errorf("dibs %v writes %q, want %q", args, got, test.text)
			}
			got := []int{}
			for _, row := range c.Rows(c.OK(append(args, "--json")...)) {
				got = append(got, int(row["id"].(float64)))
			}
			if fmt.Sprint(got) != test.ids {
				c.T.Errorf("dibs %v --json names %v, want %s", args, got, test.ids)
			}
		}
		c.Refused(c.Run("", "cancel", "1", "99", "--dry-run"), cmdline.ExitNotFound, []string{"cancel"}, "2 of 2 jobs were not cancelled (first: 1)")
		if after := c.OK("ls", "--all", "--json") + c.OK("ls", "--state", "cancelled", "--json"); after != before {
			c.T.Errorf("something has changed:\n%s%s", before, after)
		}
	})
}

// A change of all queues asks for a confirmation, or needs --all.
func TestChangesOfAllQueuesAreConfirmed(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		c.OK("enqueue", "p")
		for _, args := range [][]string{
			{"cancel", "--state", "waiting"},
			{"edit", "--state", "waiting", "--priority", "1"},
			{"requeue", "--state", "dead"},
		} {
			c.Fails(cmdline.ExitUsage, "", args, "jobs of all queues", "--all")
			out := c.answer("n\n", args...)
			if want := "all 2 waiting jobs, of all queues? [y/N]"; args[0] != "requeue" && (out.Code != cmdline.ExitFailure || !strings.Contains(out.Err, want)) {
				c.T.Errorf("dibs %v: exit code %d\n%s", args, out.Code, out.Err)
			}
		}
		c.Has(c.Job(1), object{"state": "waiting", "priority": 255})
		if r := c.answer("y\n", "cancel", "--state", "waiting"); r.Code != cmdline.ExitOK || r.Out != "cancelled 2 jobs\n" {
			c.T.Errorf("exit code %d\n%s%s", r.Code, r.Out, r.Err)
		}
		if got := c.OK("requeue", "--state", "cancelled", "--all"); got != "requeued 2 jobs\n" {
			c.T.Errorf("dibs requeue --all writes %q", got)
		}
		if got := c.OK("cancel", "--all"); got != "cancelled 2 jobs\n" {
			c.T.Errorf("dibs cancel --all writes %q", got)
		}
	})
}

// answer runs the command as if a person typed on a terminal.
func (c *cli) answer(typed string, args ...string) runResult {
	c.T.Helper()
	var out, err bytes.Buffer
	a := newApp(strings.NewReader(typed), &out, &err)
	a.InTTY, a.ErrTTY = true, true
	root := newRootCmd(a)
	root.SetArgs(append([]string{"--db", c.DB}, args...))
	code := cmdline.ExitOK
	if e := root.ExecuteContext(c.T.Context()); e != nil {
		code = a.Fail(c.T.Context(), e)
	}
	return runResult{Code: code, Out: out.String(), Err: err.String()}
}

// Ids from stdin are changed in batches as they come, however many there are.
func TestIDsFromStdinComeInBatches(t *testing.T) {
	onEach(t, func(c *cli) {
		const n = dibs.MaxBatch + 20
		c.Feed(strings.Repeat("x\n", n), "enqueue", "q", "--lines")
		var ids strings.Builder
		for i := range n {
			fmt.Fprintln(&ids, i+1)
		}
		args := []string{"cancel", "-"}
		r := c.Run(ids.String()+"\n one more\n", args...)
		c.Refused(r, cmdline.ExitPartial, args,
			fmt.Sprintf(`stdin:%d: id: must be a job's number, got "one"; of the 10,000 jobs before that: cancelled 10,000 jobs`, n+2), "blanks or line ends")
		c.Has(c.Stats("q"), object{"cancelled": dibs.MaxBatch, "waiting": 20})
		last := fmt.Sprint(n - 1)
		if got := c.Feed("\t"+last+" "+fmt.Sprint(n)+"\r\n", "edit", "-", "--priority", "3"); got != "changed 2 jobs\n" {
			c.T.Errorf("dibs edit writes %q", got)
		}
		c.Fails(cmdline.ExitUsage, last+"\n"+strings.Repeat("9", 200_000), args, `stdin:2: id: must be a job's number, got "999`)
		c.Fails(cmdline.ExitUsage, last+"\n1.5\n", args, `stdin:2: id: must be a job's number, got "1.5"`)
		c.Has(c.Stats("q"), object{"cancelled": dibs.MaxBatch, "waiting": 20})
	})
}

// The first ids are changed before the others have come.
func TestIDsFromStdinAreNotGathered(t *testing.T) {
	c := onSQLite(t)
	c.Feed("1\n", "enqueue", "q", "--lines")
	ids, feed := io.Pipe()
	out, done := io.Pipe()
	go func() {
		run(t.Context(), []string{"--db", c.DB, "--json", "cancel", "-"}, ids, done, io.Discard)
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
		c.Feed("1\n2\n3\n4\n", "enqueue", "q", "--lines")
		c.OK("cancel", "1", "2")
		for _, j := range c.Rows(c.OK("claim", "q", "-n", "2")) {
			c.OK("finish", fmt.Sprint(j["id"]), j["token"].(string), "--completed")
		}
		db, err := open.Database(c.T.Context(), open.URL(c.DB), open.Options{})
		if err != nil {
			c.T.Fatal(err)
		}
		defer db.Close()
		var batches [][]dibs.State
		s := selection{queue: "q", ended: true}
		err = s.each(c.T.Context(), db, nil, func(list []chosen) error {
			var states []dibs.State
			for _, j := range list {
				states = append(states, j.state)
			}
			batches = append(batches, states)
			return nil
		})
		want := [][]dibs.State{{dibs.Completed, dibs.Completed}, {dibs.Cancelled, dibs.Cancelled}}
		if err != nil || !reflect.DeepEqual(batches, want) {
			c.T.Errorf("the batches are %v, %v; want %v", batches, err, want)
		}
	})
}
