package jobs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// book are two pages, what binds them, what cleans up whatever became of them, and what tells that one has failed.
const book = `{"queue":"book","kind":"render","payload":1,"ref":"page"}
{"queue":"book","kind":"render","payload":2,"ref":"page"}
{"queue":"book","kind":"bind","after":["page"]}
{"queue":"book","kind":"clean","after":[{"ref":"page","on":"ended"}]}
{"queue":"book","kind":"mail","after":[{"ref":"page","on":"failed"}]}
`

// ended claims a job of a queue and ends it.
func (c *cli) ended(queue string, how ...string) {
	c.T.Helper()
	job := c.Row(c.OK("claim", queue))
	c.OK(append([]string{"finish", fmt.Sprint(job["id"]), job["token"].(string)}, how...)...)
}

func TestJobsOfAFileComeAfterEachOther(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(book, "enqueue", "--jobs")
		c.Has(c.Job(3), object{"state": "blocked", "waits_for": 2, "flow": 1})
		c.HasInOrder(c.OK("show", "3"), "job 3  blocked", "held up", "it comes after 2 jobs that have not ended: 1, 2", "flow       1")
		c.HasInOrder(c.OK("ls", "book"), "after 2 jobs that have not ended", "book: 3 jobs come after others that have not ended")
		if got := c.WhyOf("book"); got != "no_worker after" {
			c.T.Errorf("the reasons are %q", got)
		}
		c.HasInOrder(c.OK("flow", "2"), "job 2  waiting", "flow 1: 0 of 5 jobs ended (0 %)", "render        2", "bind", "clean", "mail", "after it come: 0 of 3 jobs")
		c.ended("book", "--completed")
		c.HasInOrder(c.OK("show", "3"), "it comes after 1 job that has not ended: 2\n")
		c.ended("book", "--dead", "--error", "no ink")
		c.HasInOrder(c.Run("", "wait", "3", "--timeout", "1m").Out, "job 3  cancelled  because of job 2")
		c.Has(c.Job(3), object{"state": "cancelled", "cause": 2})
		c.HasInOrder(c.OK("show", "3"), "cancelled  because job 2 died ('dibs requeue 2' puts both back)")
		c.HasInOrder(c.OK("flow", "2"), "job 2  dead", "1 job was cancelled because of it; 'dibs requeue 2' puts it and them back")
		c.HasInOrder(c.OK("requeue", "2"), "requeued 1 job", "come back, too", "1 job that comes after it could start before, and will not wait again: 'dibs flow 2'")
	})
}

func TestTheJobsBeforeOneAreListedInPages(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(book, "enqueue", "--jobs")
		c.ended("book", "--completed", "--result", `{"n":7}`)
		c.ended("book", "--dead", "--error", "no ink")
		c.HasInOrder(c.OK("before", "4"), "1  completed  book   render", `{"n":7}`, "2  dead", "no ink")
		c.HasInOrder(c.OK("before", "4", "-n", "1"), "1  completed", "there are more: --after 1, or --all")
		pages := c.Rows(c.OK("before", "4", "-n", "1", "--all", "--json"))
		if len(pages) < 2 { // the last page may be empty
			c.T.Fatalf("%d pages", len(pages))
		}
		c.Has(pages[0], object{"next": "1"})
		c.Has(pages[1]["jobs"].([]any)[0].(map[string]any), object{"id": 2, "state": "dead"})
		c.HasInOrder(c.OK("before", "4", "--after", "2"), "no such jobs")
		c.HasInOrder(c.OK("before", "1"), "job 1 comes after no other")
		c.HasInOrder(c.OK("before", "1", "--json"), `{"jobs":[]}`)
		c.Fails(cmdline.ExitUsage, "", []string{"before", "4", "-n", "0"}, "limit")
		c.Refused(c.Run("", "before", "99"), cmdline.ExitNotFound, []string{"before"}, "job 99")
	})
}

func TestAJobComesAfterThoseOfItsFlags(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed("1\n2\n3\n", "enqueue", "q", "--lines")
		c.OK("enqueue", "late", "--after", "1, 2", "--after-end=3")
		c.OK("enqueue", "late", "--after-failed", "1", "--after-failed", "2")
		c.Feed("{}\n"+`{"after":[1]}`+"\n"+`{"after":[]}`+"\n", "enqueue", "late", "--jobs", "--after", "2,3")
		c.Has(c.Job(4), object{"state": "blocked", "waits_for": 3})
		c.Has(c.Job(5), object{"state": "blocked", "waits_for": 2})
		c.Has(c.Job(6), object{"state": "blocked", "waits_for": 2})
		c.Has(c.Job(7), object{"state": "blocked", "waits_for": 1})
		c.Has(c.Job(8), object{"state": "waiting"})
		for range 3 {
			c.ended("q", "--completed")
		}
		c.Refused(c.Run("", "wait", "5", "--timeout", "1m"), cmdline.ExitNotCompleted, []string{"wait"}, "1 job did not complete")
		c.HasInOrder(c.OK("show", "5"), "cancelled  because job 1 was completed")
		c.Has(c.Job(4), object{"state": "waiting"})

		c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "late", "--after", "99"}, "after[0]: there is no job 99")
		c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "late", "--after", "1,x"}, `"x" is no job's number; write for example 17 or 17,18`)
		c.Fails(cmdline.ExitUsage, "", []string{"enqueue", "late", "--after", "1", "--unique", "u", "--if-held", "replace"}, `after: must be empty with if_held "replace"`)
		c.Fails(cmdline.ExitUsage, "{}\n"+`{"after":[1,98]}`+"\n", []string{"enqueue", "late", "--jobs"}, "stdin:2: after[1]: there is no job 98")
	})
}

// A large file is enqueued in several calls, whose jobs come after each other all the same.
func TestRefsReachOverTheCallsOfALargeFile(t *testing.T) {
	onEach(t, func(c *cli) {
		line := `{"queue":"book","kind":"render","ref":"page","payload":1}` + "\n"
		last := `{"queue":"book","kind":"bind","after":["page",{"ref":"cover","on":"ended"}],"ref":"book"}` + "\n" + `{"queue":"book","kind":"sell","after":["book","page"]}` + "\n"
		cover := `{"queue":"book","kind":"draw","ref":"cover"}` + "\n"
		n := dibs.MaxBatch - 1
		c.Feed(strings.Repeat(line, n)+cover+line+last, "enqueue", "--jobs")
		bind := n + 3
		c.Has(c.Job(bind), object{"kind": "bind", "state": "blocked", "waits_for": n + 2})
		c.Has(c.Job(bind+1), object{"kind": "sell", "state": "blocked", "waits_for": n + 2})
		c.HasInOrder(c.OK("flow", fmt.Sprint(bind)), "it comes after: 0 of 10,001 jobs ended (0 %)", "render   10,000", "draw", "after it come: 0 of 1 job")
	})
}

func TestRefsThatCannotWorkAreRefused(t *testing.T) {
	c := onSQLite(t)
	for text, want := range map[string]string{
		`{"after":["page"]}` + "\n" + strings.Repeat("{}\n", dibs.MaxBatch) + `{"ref":"page"}`: `stdin:1: after[0]: the jobs with ref "page" must stand earlier in the file; one stands in line 10002`,
		`{"ref":"page","after":[{"id":1},"page"]}`:                                             `stdin:1: after[1]: the jobs with ref "page" must stand earlier in the file; one stands in line 1`,
		`{"after":[{"ref":"page","id":1}]}`:                                                    "stdin:1: after[0]: must have an id or a ref, not both",
		"{}\n" + `{"after":["page",{"ref":"x","on":"done"}]}`:                                  "stdin:2: after[1]: on must be completed, ended or failed",
		`{"ref":"a\u0007"}`: "stdin:1: ref: ",
	} {
		c.Fails(cmdline.ExitUsage, text+"\n", []string{"enqueue", "q", "--jobs"}, want, "nothing was enqueued")
	}
	c.Feed(`{"ref":"page"}`+"\n"+`{"ref":"page","after":["page"]}`+"\n"+`{"after":["page","nothing"]}`+"\n"+`{"after":["nothing"]}`+"\n", "enqueue", "q", "--jobs")
	c.Has(c.Job(2), object{"state": "blocked", "waits_for": 1})
	c.Has(c.Job(3), object{"state": "blocked", "waits_for": 2})
	c.Has(c.Job(4), object{"state": "waiting"})

	r := c.Run(`{"ref":"page"}`+"\n{}\n"+`{"after":["page"]}`+"\n"+`{"after":[1]}`+"\n", "enqueue", "q", "--jobs", "--partial")
	if r.Code != cmdline.ExitPartial || !strings.Contains(r.Out, "enqueued 2 jobs (ids 5 to 6); left out 2 broken lines") {
		t.Errorf("exit code %d, %q", r.Code, r.Out)
	}
	c.HasInOrder(r.Err, "stdin:1: ref: cannot be used with --partial", "stdin:3: ref: cannot be used with --partial")
}

func TestAFlowIsShownAwaitedAndCancelled(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Feed(book, "enqueue", "--jobs")
		c.Refused(c.Run("", "flow", "1", "--wait", "--timeout", "100ms"), cmdline.ExitTimeout, []string{"flow"}, "5 jobs had not ended after 100ms")
		waiting := make(chan runResult, 1)
		go func() { waiting <- c.Run("", "flow", "3", "--wait", "--json", "--timeout", "10m") }()
		c.ended("book", "--completed")
		c.ended("book", "--completed")
		c.Run("", "wait", "5", "--timeout", "1m")
		c.ended("book", "--completed")
		c.ended("book", "--completed")
		r := <-waiting
		if r.Code != cmdline.ExitOK {
			c.T.Errorf("dibs flow --wait ends with %d: %s", r.Code, r.Err)
		}
		f := c.Row(r.Out)
		c.Has(f, object{"id": 3, "flow": 1, "state": "completed", "open": []any{}, "after": []any{}})
		all := f["all"].([]any)
		c.Has(all[0].(map[string]any), object{"kind": "render", "completed": 2})
		c.Has(all[3].(map[string]any), object{"kind": "mail", "unneeded": 1, "cancelled": 0})

		c.Feed(book, "enqueue", "--jobs")
		if got := c.OK("cancel", "--flow", "8", "--dry-run"); got != "would cancel 5 jobs\n" {
			c.T.Errorf("dibs cancel --flow --dry-run writes %q", got)
		}
		c.OK("claim", "book")
		if got := c.OK("cancel", "--flow", "8"); got != "cancelled 4 jobs\nasked the workers of 1 running job to stop\n" {
			c.T.Errorf("dibs cancel --flow writes %q", got)
		}
		c.HasInOrder(c.OK("flow", "8"), "flow 6: 4 of 5 jobs ended (80 %)")
		if got := c.OK("requeue", "--flow", "8", "--dry-run"); got != "would requeue 4 jobs\n" {
			c.T.Errorf("dibs requeue --flow --dry-run writes %q", got)
		}
		c.HasInOrder(c.OK("requeue", "--flow", "8"), "requeued 4 jobs\n", "job 8 is blocked")
		c.HasInOrder(c.OK("flow", "8"), "flow 6: 0 of 5 jobs ended (0 %)")
		c.HasInOrder(c.OK("ls", "--flow", "8", "-n", "2"), "10  blocked", "9  blocked", "there are more: --after 9")
		c.HasInOrder(c.OK("ls", "--flow", "8", "--after", "9"), "8  blocked", "7  waiting", "6  running")
		c.OK("cancel", "--flow", "8")
		c.HasInOrder(c.OK("ls", "--flow", "8", "--state", "cancelled", "--all", "-n", "3"), "10  cancelled", "7  cancelled")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "--flow", "8", "--state", "waiting"}, "state: must be completed, dead or cancelled, or empty")
		c.Fails(cmdline.ExitUsage, "", []string{"ls", "book", "--flow", "8"}, "flow")

		c.OK("enqueue", "single")
		c.HasInOrder(c.OK("flow", "11"), "job 11  waiting", "it comes after no other job, and none comes after it")
		c.Fails(cmdline.ExitNotFound, "", []string{"cancel", "--flow", "11"}, "job 11 has no flow", "'dibs cancel 11'")
		c.Fails(cmdline.ExitNotFound, "", []string{"ls", "--flow", "11"}, "job 11 has no flow", "'dibs show 11'")
		c.Fails(cmdline.ExitNotFound, "", []string{"requeue", "--flow", "11"}, "job 11 has no flow", "'dibs requeue 11'")
		c.Fails(cmdline.ExitNotFound, "", []string{"flow", "99"}, "job 99")
		c.Fails(cmdline.ExitUsage, "", []string{"cancel", "--flow", "1", "2"}, "either ids or flags")
		c.Fails(cmdline.ExitUsage, "", []string{"cancel", "--flow", "1", "--queue", "book"}, "flow")
		c.Fails(cmdline.ExitUsage, "", []string{"cancel", "--flow", "0"}, "flow: must be a job's number, got 0")
		c.Fails(cmdline.ExitUsage, "", []string{"flow", "1", "--timeout", "1s"}, "--timeout is for --wait")
	})
}
