package jobs

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// lacks fails the test if a text has one of some parts.
func (c *cli) lacks(text string, parts ...string) {
	c.T.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			c.T.Errorf("the output has %q:\n%s", part, text)
		}
	}
}

// A flow whose jobs did not all complete names some of them, and a cancelled job its cause.
func TestAFlowNamesWhatDidNotComplete(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(book, "enqueue", "--jobs")
		c.lacks(c.OK("flow", "1"), "UNNEEDED", "DEAD")
		c.ended("book", "--completed")
		c.ended("book", "--dead", "--error", "no ink")
		c.Run("", "wait", "3", "--timeout", "1m")
		c.Run("", "wait", "5", "--timeout", "1m")
		c.ended("book", "--completed")
		r := c.Run("", "flow", "1", "--wait", "--timeout", "1m")
		c.Refused(r, cmdline.ExitNotCompleted, []string{"flow"}, "2 jobs did not complete: 2, 3", "'dibs show 2' says why")
		c.HasInOrder(c.OK("flow", "3"), "job 3  cancelled", "cancelled because job 2 died", "DEAD", "UNNEEDED")

		c.OK("enqueue", "single")
		c.ended("single", "--dead")
		c.Refused(c.Run("", "flow", "6", "--wait"), cmdline.ExitNotCompleted, []string{"flow"}, "1 job did not complete: 6", "'dibs show 6' says why")
	})
}

// What was for a failure that did not come about is not needed, and not to be put back.
func TestAFlowThatSucceededGivesNoAdvice(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		c.OK("enqueue", "q", "--after-failed", "1", "--after-end", "1")
		c.OK("enqueue", "late", "--after-failed", "1")
		c.OK("enqueue", "late", "--after", "1", "--after-end", "3")
		c.HasInOrder(c.OK("show", "3"), "held up", "it comes after 1 job that has not ended: 1 (only if it is dead or cancelled)\n")
		c.HasInOrder(c.OK("show", "4"), "held up", "it comes after 2 jobs that have not ended: 1, 3 (however it ends)\n")
		c.ended("q", "--completed")
		c.Run("", "wait", "3", "--timeout", "1m")
		c.Run("", "wait", "2", "--timeout", "1m")
		text := c.OK("flow", "1")
		c.HasInOrder(text, "2 jobs were not needed, because it was completed")
		c.lacks(text, "requeue")
	})
}

// Who requeues a job whose parent is dead learns that it was cancelled again, and which one to requeue.
func TestARequeueSaysWhatOthersMakeOfIt(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q")
		c.OK("enqueue", "late", "--after", "1")
		c.OK("enqueue", "last", "--after", "2")
		c.ended("q", "--dead", "--error", "no ink")
		c.Run("", "wait", "3", "--timeout", "1m")
		// On PostgreSQL, a server that is very busy may look at the dead job later.
		if text := c.OK("requeue", "2"); !strings.Contains(text, "until it is known how") {
			c.HasInOrder(text, "requeued 1 job\n", "job 2 was cancelled again, because job 1 died: 'dibs requeue 1' puts that back, and what was cancelled because of it\n")
		}
		c.Run("", "wait", "2", "--timeout", "1m")
		if got, want := c.OK("requeue", "1"), "requeued 1 job\nthe jobs that were cancelled because of it come back, too\n"; got != want {
			c.T.Errorf("dibs requeue writes %q, want %q", got, want)
		}
		c.Has(c.Job(3), object{"state": "blocked"})

		if got, want := c.OK("cancel", "2"), "cancelled 1 job\njobs that come after it, and need that completed, are cancelled too\n"; got != want {
			c.T.Errorf("dibs cancel writes %q, want %q", got, want)
		}
		c.Run("", "wait", "3", "--timeout", "1m")
		c.lacks(c.OK("ls", "--state", "cancelled"), "requested", "on \n")
		c.lacks(c.OK("show", "2"), "requested")
		c.HasInOrder(c.OK("requeue", "2"), "requeued 1 job\nthe jobs that were cancelled because of it come back, too\njob 2 is blocked: it comes after 1 job that has not ended: 1\n")
		if got := c.OK("cancel", "3"); got != "cancelled 1 job\n" {
			c.T.Errorf("dibs cancel writes %q", got)
		}
	})
}

// A job is kept for those that come after it, and prune says so.
func TestPruneKeepsWhatOthersComeAfter(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n", "enqueue", "q", "--lines")
		c.OK("enqueue", "late", "--after", "1,2")
		c.ended("q", "--completed")
		c.ended("q", "--completed")
		c.Fails(cmdline.ExitNotFound, "", []string{"prune", "1"}, "job 1 was not deleted: jobs that come after it have not ended")
		c.Fails(cmdline.ExitNotFound, "", []string{"prune", "3"}, "job 3 was not deleted: it is waiting")
		c.Fails(cmdline.ExitNotFound, "", []string{"prune", "1", "2"}, "2 of 2 jobs were not deleted", "it or a job that comes after it has not ended")
		c.OK("cancel", "3")
		if got := c.OK("prune", "1"); got != "deleted 1 job\n" {
			c.T.Errorf("dibs prune writes %q", got)
		}
	})
}
