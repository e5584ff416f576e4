package queues

import (
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
)

// withoutTimes replaces durations, which differ from run to run, and the blanks before them.
func withoutTimes(text string) string {
	text = regexp.MustCompile(` *(<1ms|[0-9.]+m?s|now|in [0-9]+m)( ago)?`).ReplaceAllString(text, "  T")
	return clitest.Spaces.ReplaceAllString(text, "  ")
}

func (c *cli) expectText(got, want string) {
	c.T.Helper()
	if got, want := withoutTimes(got), withoutTimes(strings.TrimPrefix(want, "\n")); got != want {
		c.T.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// takeHeld takes the lists of held jobs out of workers, and returns the ids of those jobs.
func takeHeld(workers []object) (ids [][]any) {
	for _, w := range workers {
		for _, each := range w["running"].([]any) {
			var list []any
			for _, j := range each.(map[string]any)["held"].([]any) {
				list = append(list, j.(map[string]any)["id"])
			}
			ids = append(ids, list)
			delete(each.(map[string]any), "held")
		}
	}
	return ids
}

func TestWorkersAreListedWithWhatTheyHold(t *testing.T) {
	needs.Race(t)
	onEach(t, func(c *cli) {
		c.expectText(c.OK("workers"), "no worker is there; 'dibs work QUEUE -- PROGRAM' starts one\n")
		for range 3 {
			c.OK("enqueue", "emails", "1")
		}
		c.OK("enqueue", "sums", "1")
		c.Register("anna", 10, nil, "emails", "sums")
		b := c.Register("bernd", 2, []string{"pdf", "png"}, "sums")
		b.State = dibs.WorkerStopping
		c.Put(b)
		for _, args := range [][]string{{"emails", "-n", "2", "--worker", "anna"}, {"sums", "--worker", "anna"}, {"emails", "--worker", "script"}} {
			c.OK(append([]string{"claim"}, args...)...)
		}
		c.expectText(c.OK("workers", "--jobs"), `
WORKER  STATE     QUEUES        KINDS     RUNNING  SINCE  SEEN  VERSION  JOBS
anna    working   emails, sums  *            3/10      T     T  v1       1 emails for  T
                                                                         2 emails for  T
                                                                         4 sums for  T
bernd   stopping  sums          pdf, png      0/2      T     T  v1
script  -         -             -               1  -      -     -        3 emails for  T
`)
		rows := c.Rows(c.OK("workers", "--json"))
		if len(rows) != 3 {
			c.T.Fatalf("%d workers", len(rows))
		}
		held := takeHeld(rows)
		c.Has(object{"held": held}, object{"held": [][]any{{1, 2}, {4}, {3}}})
		c.Has(rows[0], object{
			"name": "anna", "host": "h", "pid": 1, "version": "v1", "queues": []string{"emails", "sums"}, "kinds": nil, "concurrency": 10, "state": "working", "queues_paused": false,
			"running": []object{{"queue": "emails", "jobs": 2, "ids": []int{2, 1}}, {"queue": "sums", "jobs": 1, "ids": []int{4}}},
		})
		c.Has(rows[1], object{"name": "bernd", "kinds": []string{"pdf", "png"}, "state": "stopping", "running": []int{}})
		c.Has(rows[2], object{"name": "script", "running": []object{{"queue": "emails", "jobs": 1, "ids": []int{3}}}})
		c.HasNot(rows[2], "id", "state", "queues")
		c.OK("pause", "emails")
		c.Has(c.Rows(c.OK("workers", "--json"))[0], object{"queues_paused": false})
		c.OK("pause", "sums")
		if got := c.OK("workers"); !strings.Contains(got, "anna    queue paused") || !strings.Contains(got, "bernd   stopping") {
			c.T.Errorf("with all queues paused, dibs workers writes\n%s", got)
		}
	})
}

func TestItIsSaidWhyNothingHappens(t *testing.T) {
	onEach(t, func(c *cli) {
		expect := func(situation, want string) {
			c.T.Helper()
			if got := c.WhyOf("q"); got != want {
				c.T.Errorf("%s: %q, want %q", situation, got, want)
			}
		}
		c.OK("queue", "q", "--create", "--lease", "1h")
		expect("an empty queue", "")
		c.OK("enqueue", "q", "1", "--delay", "1h")
		expect("nothing is due", "")
		c.OK("enqueue", "q", "1", "--kind", "pdf")
		expect("no worker", "no_worker")
		w := c.Register("other", 2, nil, "elsewhere")
		expect("a worker of another queue", "no_worker")
		w.Queues, w.Kinds, w.ID = []string{"q", "elsewhere"}, []string{"png", "gif"}, dibs.Token{9}
		c.Put(w)
		expect("a worker of another kind", "no_worker_for_kind[pdf]")
		c.OK("enqueue", "q", "1", "--kind", "png")
		expect("kinds of both sorts", "no_worker_for_kind[pdf]")
		all := w
		all.Kinds, all.ID, all.Concurrency = nil, dibs.Token{8}, 1
		c.Put(all)
		expect("a worker of all kinds beside it", "")
		c.OK("pause", "q")
		expect("paused", "paused")
		c.OK("resume", "q")
		c.OK("queue", "q", "--concurrency", "1")
		c.OK("claim", "q", "--kind", "pdf")
		expect("at the limit", "limit")
		c.OK("queue", "q", "--concurrency", "0")
		c.OK("enqueue", "q", "1", "--kind", "pdf", "--group", "g")
		c.OK("enqueue", "q", "1", "--kind", "pdf", "--group", "g")
		c.OK("claim", "q", "-n", "2", "--kind", "pdf")
		expect("a group at its limit and all places taken but one", "group")
		c.OK("enqueue", "q", "1", "--kind", "late")
		c.OK("claim", "q", "--kind", "png")
		expect("all places taken", "busy group")
		g := dibs.WorkerInfo{ID: dibs.Token{7}, Name: "g", Queues: []string{"g"}, Concurrency: 1, State: dibs.WorkerWorking}
		c.Put(g)
		c.OK("enqueue", "g", "1", "--group", "g")
		c.OK("enqueue", "g", "1", "--group", "g")
		c.OK("claim", "g", "--lease", "1h")
		if got := c.WhyOf("g"); got != "group" { // another worker would not help
			c.T.Errorf("only its group holds a job up: %q", got)
		}
		c.OK("queue", "h", "--create", "--group", "g=2", "--rate", "1/day")
		c.OK("enqueue", "h", "1", "--group", "g")
		c.OK("enqueue", "h", "1", "--group", "g")
		c.OK("claim", "h")
		c.OK("claim", "h")
		if got := c.WhyOf("h"); got != "rate group" {
			c.T.Errorf("its group's rate holds a job up: %q", got)
		}
		if got := c.OK("ls", "h"); !strings.Contains(got, "1 group is held by its rate; 'dibs queue h' lists them") || !strings.Contains(got, "1 job waits for its turn in its group or for its rate") {
			c.T.Errorf("dibs ls writes\n%s", got)
		}
		all.State, w.State = dibs.WorkerStopped, dibs.WorkerStopping
		c.Put(all)
		c.Put(w)
		expect("stopping", "stopping group")
		w.State = dibs.WorkerStopped
		c.Put(w)
		expect("claims without a worker", "group")
	})
}

// New jobs of a group wait for nobody while no claim has looked at the group. On SQLite the enqueue
// itself gives the group's places.
func TestNewJobsOfAGroupWaitForTheFirstClaim(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgtest.URL(t))
	c.OK("migrate")
	c.OK("enqueue", "q", "1", "--group", "g")
	c.OK("enqueue", "q", "1", "--group", "g")
	nobody := "no worker is registered for the queue; 'dibs work q -- PROGRAM' starts one"
	for _, args := range [][]string{{"stats"}, {"ls"}} {
		if got := c.OK(args...); !strings.HasSuffix(got, "\n\nq: "+nobody+"\nq: 2 jobs wait for their turns in their groups; no job of the queue runs, and claims give the turns\n") {
			t.Errorf("dibs %s writes\n%s", args, got)
		}
	}
	turn := "it waits for its turn in its group (1 at a time)"
	if got := c.OK("show", "2"); !strings.Contains(got, "held up    "+nobody+"\n") || !strings.Contains(got, " "+turn+"; no job of the queue runs, and claims give the turns\n") {
		t.Errorf("dibs show writes\n%s", got)
	}
	c.OK("claim", "q", "--lease", "1h")
	c.Has(c.Job(2), object{"why": []object{{"reason": "group", "text": turn}}})
	if got := c.OK("ls"); !strings.HasSuffix(got, "\n\nq: 1 job waits for its turn in its group\n") {
		t.Errorf("dibs ls writes\n%s", got)
	}
}

func TestTheReasonIsShownWhereOneLooks(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "q", "1", "--kind", "pdf")
		c.OK("enqueue", "q", "1", "--kind", "png", "--priority", "9")
		c.OK("enqueue", "q", "1", "--kind", "png", "--delay", "1h")
		nobody := "no worker is registered for the queue; 'dibs work q -- PROGRAM' starts one"
		for _, args := range [][]string{{"stats"}, {"stats", "q"}, {"ls"}, {"ls", "--all"}, {"ls", "q", "-n", "2"}} {
			if got := c.OK(args...); !strings.HasSuffix(got, "\n\nq: "+nobody+"\n") {
				c.T.Errorf("dibs %s writes\n%s", args, got)
			}
		}
		if got := c.OK("show", "1"); !strings.Contains(got, "held up    "+nobody+"\n") {
			c.T.Errorf("dibs show writes\n%s", got)
		}
		c.Register("w", 5, []string{"png"}, "q")
		c.Has(c.Job(1), object{"why": []object{{"reason": "no_worker_for_kind", "kinds": []string{"pdf"}, "text": "no worker of the queue handles kind pdf"}}})
		c.HasNot(c.Job(2), "why")
		c.HasNot(c.Job(3), "why")
		c.Has(c.Row(c.OK("ls", "--json")), object{"why": []object{{"queue": "q", "reason": "no_worker_for_kind", "kinds": []string{"pdf"}, "text": "no worker of the queue handles kind pdf"}}})
		c.expectText(c.OK("top", "--once"), `
  waiting 3  later 1  blocked 0  running 0  dead 0  jobs/s 0.0

Queues 1
  QUEUE  WAITING  LATER  BLOCKED  RUNNING  DEAD  OLDEST  WAIT  RUN  JOBS/S  HELD UP BY
  q            3      1        0        0     0       T     -    -     0.0  unhandled kind pdf

  nothing is running

  no job is dead
`)
		queues := c.Row(c.OK("top", "--json"))["queues"].([]any)
		if why := queues[0].(map[string]any)["why"]; why == nil {
			c.T.Errorf("dibs top --json writes %v", queues)
		}
		c.OK("cancel", "1")
		if got := c.OK("top", "--once"); strings.Contains(got, "HELD") {
			c.T.Errorf("with nothing held up, dibs top writes\n%s", got)
		}
		c.HasNot(c.Stats("q"), "why")
	})
}
