package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// register writes an entry for a worker, and lets it be seen that long ago.
func (c *cli) register(name string, concurrency int, kinds []string, queues ...string) dibs.WorkerInfo {
	c.t.Helper()
	w := dibs.WorkerInfo{ID: dibs.Token{byte(len(name)), name[0]}, Name: name, Host: "h", PID: 1, Version: "v1", Queues: queues, Kinds: kinds, Concurrency: concurrency, State: dibs.WorkerWorking}
	c.put(w)
	return w
}

func (c *cli) put(w dibs.WorkerInfo) {
	c.t.Helper()
	db, err := open.Database(c.t.Context(), open.URL(c.db), open.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if err := db.Register(c.t.Context(), w); err != nil {
		c.t.Fatal(err)
	}
}

// withoutTimes replaces durations, which differ from run to run, and the blanks before them.
func withoutTimes(text string) string {
	text = regexp.MustCompile(` *(<1ms|[0-9.]+m?s|now)( ago)?`).ReplaceAllString(text, "  T")
	return spaces.ReplaceAllString(text, "  ")
}

func (c *cli) expectText(got, want string) {
	c.t.Helper()
	if got, want := withoutTimes(got), withoutTimes(strings.TrimPrefix(want, "\n")); got != want {
		c.t.Errorf("got\n%s\nwant\n%s", got, want)
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
		c.expectText(c.ok("workers"), "no worker is there; 'dibs work QUEUE -- PROGRAM' starts one\n")
		for range 3 {
			c.ok("enqueue", "emails", "1")
		}
		c.ok("enqueue", "sums", "1")
		a := c.register("anna", 10, nil, "emails", "sums")
		b := c.register("bernd", 2, []string{"pdf", "png"}, "sums")
		b.State = dibs.WorkerStopping
		c.put(b)
		for _, args := range [][]string{{"emails", "-n", "2", "--worker", "anna"}, {"sums", "--worker", "anna"}, {"emails", "--worker", "script"}} {
			c.ok(append([]string{"claim"}, args...)...)
		}
		listed := func(args ...string) (out string) { // on a slow machine a worker that is not registered again may count as lost
			for begin := time.Now(); time.Since(begin) < patience; {
				c.put(a)
				c.put(b)
				if out = c.ok(args...); !strings.Contains(out, dibs.WorkerLost) {
					break
				}
			}
			return out
		}
		c.expectText(listed("workers", "--jobs"), `
WORKER  STATE     QUEUES        KINDS     RUNNING  SINCE  SEEN  VERSION  JOBS
anna    working   emails, sums  *            3/10      T     T  v1       1 emails for  T
                                                                         2 emails for  T
                                                                         4 sums for  T
bernd   stopping  sums          pdf, png      0/2      T     T  v1
script  -         -             -               1  -      -     -        3 emails for  T
`)
		rows := c.rows(listed("workers", "--json"))
		if len(rows) != 3 {
			c.t.Fatalf("%d workers", len(rows))
		}
		held := takeHeld(rows)
		c.has(object{"held": held}, object{"held": [][]any{{1, 2}, {4}, {3}}})
		c.has(rows[0], object{
			"name": "anna", "host": "h", "pid": 1, "version": "v1", "queues": []string{"emails", "sums"}, "kinds": nil, "concurrency": 10, "state": "working", "queues_paused": false,
			"running": []object{{"queue": "emails", "jobs": 2, "ids": []int{2, 1}}, {"queue": "sums", "jobs": 1, "ids": []int{4}}},
		})
		c.has(rows[1], object{"name": "bernd", "kinds": []string{"pdf", "png"}, "state": "stopping", "running": []int{}})
		c.has(rows[2], object{"name": "script", "running": []object{{"queue": "emails", "jobs": 1, "ids": []int{3}}}})
		c.hasNot(rows[2], "id", "state", "queues")
		c.ok("pause", "emails")
		c.has(c.rows(listed("workers", "--json"))[0], object{"queues_paused": false})
		c.ok("pause", "sums")
		if got := listed("workers"); !strings.Contains(got, "anna    queue paused") || !strings.Contains(got, "bernd   stopping") {
			c.t.Errorf("with all queues paused, dibs workers writes\n%s", got)
		}
	})
}

// whyOf reads the reasons of a queue.
func (c *cli) whyOf(queue string) string {
	c.t.Helper()
	var reasons []string
	list, _ := c.stats(queue)["why"].([]any)
	for _, each := range list {
		o := each.(map[string]any)
		reason := fmt.Sprint(o["reason"])
		if o["kinds"] != nil {
			reason += fmt.Sprint(o["kinds"])
		}
		reasons = append(reasons, reason)
	}
	return strings.Join(reasons, " ")
}

func TestItIsSaidWhyNothingHappens(t *testing.T) {
	onEach(t, func(c *cli) {
		expect := func(situation, want string) {
			c.t.Helper()
			if got := c.whyOf("q"); got != want {
				c.t.Errorf("%s: %q, want %q", situation, got, want)
			}
		}
		c.ok("queue", "q", "--create", "--lease", "1h")
		expect("an empty queue", "")
		c.ok("enqueue", "q", "1", "--delay", "1h")
		expect("nothing is due", "")
		c.ok("enqueue", "q", "1", "--kind", "pdf")
		expect("no worker", "no_worker")
		w := c.register("other", 2, nil, "elsewhere")
		expect("a worker of another queue", "no_worker")
		w.Queues, w.Kinds, w.ID = []string{"q", "elsewhere"}, []string{"png", "gif"}, dibs.Token{9}
		c.put(w)
		expect("a worker of another kind", "no_worker_for_kind[pdf]")
		c.ok("enqueue", "q", "1", "--kind", "png")
		expect("kinds of both sorts", "no_worker_for_kind[pdf]")
		all := w
		all.Kinds, all.ID, all.Concurrency = nil, dibs.Token{8}, 1
		c.put(all)
		expect("a worker of all kinds beside it", "")
		c.ok("pause", "q")
		expect("paused", "paused")
		c.ok("resume", "q")
		c.ok("queue", "q", "--concurrency", "1")
		c.ok("claim", "q", "--kind", "pdf")
		expect("at the limit", "limit")
		c.ok("queue", "q", "--concurrency", "0")
		c.ok("enqueue", "q", "1", "--kind", "pdf", "--group", "g")
		c.ok("enqueue", "q", "1", "--kind", "pdf", "--group", "g")
		c.ok("claim", "q", "-n", "2", "--kind", "pdf")
		expect("a group at its limit and all places taken but one", "group")
		c.ok("enqueue", "q", "1", "--kind", "late")
		c.ok("claim", "q", "--kind", "png")
		expect("all places taken", "busy group")
		g := dibs.WorkerInfo{ID: dibs.Token{7}, Name: "g", Queues: []string{"g"}, Concurrency: 1, State: dibs.WorkerWorking}
		c.put(g)
		c.ok("enqueue", "g", "1", "--group", "g")
		c.ok("enqueue", "g", "1", "--group", "g")
		c.ok("claim", "g", "--lease", "1h")
		if got := c.whyOf("g"); got != "group" { // another worker would not help
			c.t.Errorf("only its group holds a job up: %q", got)
		}
		c.ok("queue", "h", "--create", "--group", "g=2", "--rate", "1/day")
		c.ok("enqueue", "h", "1", "--group", "g")
		c.ok("enqueue", "h", "1", "--group", "g")
		c.ok("claim", "h")
		c.ok("claim", "h")
		if got := c.whyOf("h"); got != "rate group" {
			c.t.Errorf("its group's rate holds a job up: %q", got)
		}
		if got := c.ok("ls", "h"); !strings.Contains(got, "1 group is held by its rate; 'dibs queue h' lists them") || !strings.Contains(got, "1 job waits for its turn in its group or for its rate") {
			c.t.Errorf("dibs ls writes\n%s", got)
		}
		all.State, w.State = dibs.WorkerStopped, dibs.WorkerStopping
		c.put(all)
		c.put(w)
		expect("stopping", "stopping group")
		w.State = dibs.WorkerStopped
		c.put(w)
		expect("claims without a worker", "group")
	})
}

// New jobs of a group wait for nobody while no claim has looked at the group. On SQLite the enqueue
// itself gives the group's places.
func TestNewJobsOfAGroupWaitForTheFirstClaim(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, db: pgtest.URL(t)}
	c.ok("migrate")
	c.ok("enqueue", "q", "1", "--group", "g")
	c.ok("enqueue", "q", "1", "--group", "g")
	nobody := "no worker is registered for the queue; 'dibs work q -- PROGRAM' starts one"
	for _, args := range [][]string{{"stats"}, {"ls"}} {
		if got := c.ok(args...); !strings.HasSuffix(got, "\n\nq: "+nobody+"\nq: 2 jobs wait for their turns in their groups; no job of the queue runs, and claims give the turns\n") {
			t.Errorf("dibs %s writes\n%s", args, got)
		}
	}
	turn := "it waits for its turn in its group (1 at a time)"
	if got := c.ok("show", "2"); !strings.Contains(got, "held up    "+nobody+"\n") || !strings.Contains(got, " "+turn+"; no job of the queue runs, and claims give the turns\n") {
		t.Errorf("dibs show writes\n%s", got)
	}
	c.ok("claim", "q", "--lease", "1h")
	c.has(c.job(2), object{"why": []object{{"reason": "group", "text": turn}}})
	if got := c.ok("ls"); !strings.HasSuffix(got, "\n\nq: 1 job waits for its turn in its group\n") {
		t.Errorf("dibs ls writes\n%s", got)
	}
}

func TestTheReasonIsShownWhereOneLooks(t *testing.T) {
	onEach(t, func(c *cli) {
		c.ok("enqueue", "q", "1", "--kind", "pdf")
		c.ok("enqueue", "q", "1", "--kind", "png", "--priority", "9")
		c.ok("enqueue", "q", "1", "--kind", "png", "--delay", "1h")
		nobody := "no worker is registered for the queue; 'dibs work q -- PROGRAM' starts one"
		for _, args := range [][]string{{"stats"}, {"stats", "q"}, {"ls"}, {"ls", "--all"}, {"ls", "q", "-n", "2"}} {
			if got := c.ok(args...); !strings.HasSuffix(got, "\n\nq: "+nobody+"\n") {
				c.t.Errorf("dibs %s writes\n%s", args, got)
			}
		}
		if got := c.ok("show", "1"); !strings.Contains(got, "held up    "+nobody+"\n") {
			c.t.Errorf("dibs show writes\n%s", got)
		}
		c.register("w", 5, []string{"png"}, "q")
		c.has(c.job(1), object{"why": []object{{"reason": "no_worker_for_kind", "kinds": []string{"pdf"}, "text": "no worker of the queue handles kind pdf"}}})
		c.hasNot(c.job(2), "why")
		c.hasNot(c.job(3), "why")
		c.has(c.row(c.ok("ls", "--json")), object{"why": []object{{"queue": "q", "reason": "no_worker_for_kind", "kinds": []string{"pdf"}, "text": "no worker of the queue handles kind pdf"}}})
		c.expectText(c.ok("top", "--once"), `
  waiting 3  later 1  blocked 0  running 0  dead 0  jobs/s 0.0

Queues 1
  QUEUE  WAITING  LATER  BLOCKED  RUNNING  DEAD  OLDEST  WAIT  RUN  JOBS/S  HELD UP BY
  q            3      1        0        0     0       T     -    -     0.0  unhandled kind pdf

  nothing is running

  no job is dead
`)
		queues := c.row(c.ok("top", "--json"))["queues"].([]any)
		if why := queues[0].(map[string]any)["why"]; why == nil {
			c.t.Errorf("dibs top --json writes %v", queues)
		}
		c.ok("cancel", "1")
		if got := c.ok("top", "--once"); strings.Contains(got, "HELD") {
			c.t.Errorf("with nothing held up, dibs top writes\n%s", got)
		}
		c.hasNot(c.stats("q"), "why")
	})
}
