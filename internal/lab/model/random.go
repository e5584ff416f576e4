package model

import (
	"encoding/json"
	"flag"
	"os"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Check makes runs of random calls on a model and a store in lockstep, each run on a new
// database. It compares every answer and, after every few calls, all that can be seen. It
// shortens a run that shows a difference and prints it as a test.
//
// The flags of package rapid say how much: -rapid.checks runs of -rapid.steps calls on
// average, and -rapid.seed repeats one. make night makes that about 50,000 calls, DIBS_SOAK=1
// 300,000.
func Check(t rapid.TB, newDatabase Maker) {
	if err := setFlags(); err != nil {
		t.Fatalf("%v", err)
	}
	calls := 0
	var failed []call
	defer func() {
		if failed != nil {
			t.Logf("as a test:\n\n%s", shorten(newDatabase, failed))
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		r := Start(t, newDatabase)
		t.Cleanup(func() {
			if calls += len(r.calls); t.Failed() {
				failed = r.calls
			}
		})
		r.random(t)
	})
	t.Logf("%d calls compared", calls)
}

// setFlags sets the flags of rapid that the command line does not. It does so once, since
// tests run in parallel.
var setFlags = sync.OnceValue(func() error {
	defaults := map[string]string{
		"rapid.steps": "50", "rapid.nofailfile": "true", "rapid.shrinktime": "0s", // the function shorten shortens failed runs instead
	}
	switch {
	case os.Getenv("DIBS_SOAK") != "":
		defaults["rapid.checks"] = "6000"
	case needs.AtNight():
		defaults["rapid.checks"] = "1000"
	}
	flag.Visit(func(f *flag.Flag) { delete(defaults, f.Name) })
	for name, value := range defaults {
		if err := flag.Set(name, value); err != nil {
			return err
		}
	}
	return nil
})

// compareEvery is the number of calls between two comparisons of all that can be seen,
// which take longer than most calls.
const compareEvery = 3

// random makes random calls.
func (r *Run) random(t *rapid.T) {
	r.SetQueue("a", dibs.QueueChange{Strict: new(rapid.Bool().Draw(t, "strict")), GroupLimit: new(rapid.IntRange(1, 2).Draw(t, "group limit"))})
	r.SetQueue("b", dibs.QueueChange{Concurrency: new(rapid.IntRange(0, 2).Draw(t, "concurrency"))})
	r.flows = rapid.IntRange(0, 2).Draw(t, "flows") == 0
	steps := 0
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) {
			if steps++; steps%compareEvery == 0 {
				r.Same()
			}
		},
		"Enqueue":  r.randomEnqueue,
		"Enqueue2": r.randomEnqueue,
		"Claim":    r.randomClaim,
		"Claim2":   r.randomClaim,
		"Claim3":   r.randomClaim,
		"Finish":   r.randomFinish,
		"Finish2":  r.randomFinish,
		"Finish3":  r.randomFinish,
		"Finish4":  r.randomFinish,
		"Pass":     outside(r, func(t *rapid.T) { r.Pass(hours(1, 4).Draw(t, "time")) }),
		"Extend":   outside(r, func(t *rapid.T) { r.Extend(hours(1, 5).Draw(t, "lease"), r.someLeases(t)...) }),
		"Resume": outside(r, func(t *rapid.T) {
			r.Resume(dibs.ClaimRequest{Queue: queues.Draw(t, "queue"), Worker: workers.Draw(t, "worker"), Lease: hours(0, 3).Draw(t, "lease")})
		}),
		"Sweep": outside(r, func(t *rapid.T) {
			if rapid.IntRange(0, 7).Draw(t, "anew") == 7 { // rarely, since it takes long
				r.Another()
			}
			r.Sweep()
		}),
		"Begin": outside(r, func(*rapid.T) { r.Begin() }),
		"End": func(t *rapid.T) {
			if r.txStart == nil {
				t.SkipNow()
			}
			if rapid.Bool().Draw(t, "commit") {
				r.Commit()
			} else {
				r.Rollback()
			}
		},
		"Cancel":   outside(r, func(t *rapid.T) { r.Cancel(r.someJobs(t)...) }),
		"Requeue":  outside(r, func(t *rapid.T) { r.Requeue(r.someJobs(t)...) }),
		"Revive":   outside(r, func(*rapid.T) { r.Requeue(r.m.causes()...) }),
		"Edit":     outside(r, r.randomEdit),
		"Prune":    outside(r, r.randomPrune),
		"Delete":   outside(r, func(t *rapid.T) { r.DeleteEnded(r.someJobs(t)...) }),
		"SetQueue": outside(r, r.randomSetQueue),
		"SetGroup": outside(r, func(t *rapid.T) {
			r.SetGroup("a", groups.Draw(t, "group"), rapid.IntRange(0, 3).Draw(t, "limit"))
		}),
		"List": outside(r, r.randomList),
		"Get":  outside(r, func(t *rapid.T) { r.Get(r.someJobs(t)[0]) }),
	})
}

// outside skips an action while a transaction is open, since it would wait for its end.
func outside(r *Run, action func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if r.txStart != nil {
			t.SkipNow()
		}
		action(t)
	}
}

// There are few values of everything, so that jobs meet. Queue "b" has no groups.
var (
	queues   = rapid.SampledFrom([]string{"a", "a", "b"})
	kinds    = rapid.SampledFrom([]string{"k1", "k2"})
	workers  = rapid.SampledFrom([]string{"w1", "w2"})
	groups   = rapid.SampledFrom([]string{"g", "h"})
	keys     = rapid.SampledFrom([]string{"", "", "x", "y"})
	payloads = rapid.SampledFrom([]string{"1", " [1, 2] ", `"longer than twenty"`})
	finals   = rapid.SampledFrom([]dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled})
)

func hours(from, to int) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.IntRange(from, to), func(n int) time.Duration { return time.Duration(n) * time.Hour })
}

// someTime returns a time that differs from every sum of whole hours.
func (r *Run) someTime(t *rapid.T) time.Time {
	return r.In(hours(-2, 4).Draw(t, "time") + grid)
}

func (r *Run) randomEnqueue(t *rapid.T) {
	jobs := make([]dibs.NewJob, rapid.IntRange(1, 4).Draw(t, "jobs"))
	for i := range jobs {
		j := &jobs[i]
		j.Queue, j.Kind = queues.Draw(t, "queue"), kinds.Draw(t, "kind")
		if j.Queue == "a" && rapid.IntRange(0, 3).Draw(t, "grouped") > 0 {
			j.Group = groups.Draw(t, "group")
		}
		if rapid.Bool().Draw(t, "with priority") {
			j.Priority = new(rapid.IntRange(254, 256).Draw(t, "priority"))
		}
		switch rapid.IntRange(0, 5).Draw(t, "when") {
		case 4:
			j.Delay = hours(1, 3).Draw(t, "delay")
		case 5:
			j.RunAt = r.someTime(t)
		}
		if j.UniqueKey = keys.Draw(t, "key"); j.UniqueKey != "" {
			randomUnique(t, j)
		}
		switch rapid.IntRange(0, 9).Draw(t, "rest") {
		case 7:
			j.MaxAttempts = rapid.IntRange(1, 3).Draw(t, "attempts")
		case 8:
			j.Metadata = json.RawMessage(`{"m": 1}`)
		case 9:
			j.Payload = json.RawMessage(payloads.Draw(t, "payload"))
		}
		if r.flows {
			r.randomAfter(t, j)
		}
	}
	r.Enqueue(jobs...)
}

// randomUnique says how a job holds its key, and what it does to another one that holds it.
func randomUnique(t *rapid.T, j *dibs.NewJob) {
	if rapid.Bool().Draw(t, "until claimed") {
		j.UniqueUntil = dibs.UntilClaimed
	}
	if rapid.IntRange(0, 2).Draw(t, "for") == 2 {
		j.UniqueFor = hours(1, 6).Draw(t, "period")
	}
	switch rapid.IntRange(0, 5).Draw(t, "if held") {
	case 3, 4:
		j.IfHeld = dibs.HeldReplace
	case 5:
		if j.IfHeld = dibs.HeldPush; j.RunAt.IsZero() {
			j.Delay = hours(1, 3).Draw(t, "delay")
		}
		j.DelayLimit = hours(1, 6).Draw(t, "limit")
	}
}

func (r *Run) randomClaim(t *rapid.T) {
	q := dibs.ClaimRequest{Queue: queues.Draw(t, "queue"), Worker: workers.Draw(t, "worker"), N: rapid.IntRange(1, 4).Draw(t, "n")}
	if rapid.IntRange(0, 4).Draw(t, "some kinds") == 4 {
		q.Kinds = []string{kinds.Draw(t, "kind")}
	}
	q.Lease = hours(0, 3).Draw(t, "lease")
	if r.db.Lazy && q.Queue == "a" && r.usedQueues["a"] {
		t.SkipNow() // groups that the transaction has changed give their places only after its end
	}
	r.Claim(q)
}

// someLeases returns leases, most of them valid.
func (r *Run) someLeases(t *rapid.T) []dibs.Lease {
	var all []dibs.Lease
	for _, j := range r.m.find(func(j *job) bool { return j.State == dibs.Running }) {
		all = append(all, j.Lease())
	}
	some := map[int64]dibs.Lease{}
	for range rapid.IntRange(1, 4).Draw(t, "leases") {
		l := dibs.Lease{ID: r.someJob(t), Token: Token(rapid.IntRange(1, r.m.lastClaim+1).Draw(t, "token"))}
		if len(all) > 0 && rapid.IntRange(0, 5).Draw(t, "good") < 5 {
			l = rapid.SampledFrom(all).Draw(t, "lease")
		}
		some[l.ID] = l
	}
	var leases []dibs.Lease
	for id := range r.m.lastID + 2 {
		if l, ok := some[id]; ok {
			leases = append(leases, l)
		}
	}
	return leases
}

func (r *Run) randomFinish(t *rapid.T) {
	if r.m.lastClaim == 0 {
		t.SkipNow()
	}
	var outcomes []dibs.Outcome
	adds := false
	for _, l := range r.someLeases(t) {
		o := l.Complete(nil)
		switch o.Ending = endings.Draw(t, "ending"); o.Ending {
		case dibs.EndCompleted:
			if rapid.Bool().Draw(t, "with result") {
				o.Result = json.RawMessage(`{"r": 1}`)
			}
			if r.flows && r.txStart == nil && rapid.IntRange(0, 2).Draw(t, "adds") == 0 { // others of the call would end before or after, as the store likes
				o.Add, adds = randomAdd(t), true
			}
		case dibs.EndSnooze:
			o.Delay = new(hours(0, 3).Draw(t, "delay"))
		case dibs.EndRetry:
			if rapid.Bool().Draw(t, "with delay") {
				o.Delay = new(hours(0, 3).Draw(t, "delay"))
			}
		}
		if rapid.Bool().Draw(t, "with error") {
			o.Error = "e"
		}
		if outcomes = append(outcomes, o); adds {
			outcomes = outcomes[len(outcomes)-1:]
			break
		}
	}
	r.Finish(outcomes...)
}

var endings = rapid.SampledFrom([]dibs.Ending{
	dibs.EndCompleted, dibs.EndRetry, dibs.EndRetry, dibs.EndSnooze, dibs.EndRelease, dibs.EndDead, dibs.EndCancelled,
})

// someJob returns a job's id, or the next id, which no job has.
func (r *Run) someJob(t *rapid.T) int64 { return rapid.Int64Range(1, r.m.lastID+1).Draw(t, "job") }

func (r *Run) someJobs(t *rapid.T) []int64 {
	ids := make([]int64, rapid.IntRange(1, 4).Draw(t, "jobs"))
	for i := range ids {
		ids[i] = r.someJob(t)
	}
	return ids
}

func (r *Run) randomEdit(t *rapid.T) {
	var e admin.Edit
	what := rapid.IntRange(1, 3).Draw(t, "what")
	if what&1 != 0 {
		e.Priority = new(rapid.IntRange(254, 256).Draw(t, "priority"))
	}
	if what&2 != 0 {
		e.RunAt = new(r.someTime(t))
	}
	r.Edit(e, r.someJobs(t)...)
}

func (r *Run) randomPrune(t *rapid.T) {
	var queue string
	var state dibs.State
	if rapid.Bool().Draw(t, "one queue") {
		queue = queues.Draw(t, "queue")
	}
	if rapid.Bool().Draw(t, "one state") {
		state = finals.Draw(t, "state")
	}
	r.Prune(queue, state, hours(0, 3).Draw(t, "age"))
}

func (r *Run) randomSetQueue(t *rapid.T) {
	var c dibs.QueueChange
	switch rapid.IntRange(0, 10).Draw(t, "setting") {
	case 0:
		c.Paused = new(rapid.Bool().Draw(t, "paused"))
	case 1:
		c.Concurrency = new(rapid.IntRange(0, 3).Draw(t, "concurrency"))
	case 2, 3:
		c.GroupLimit = new(rapid.IntRange(1, 3).Draw(t, "group limit"))
	case 4, 5:
		c.Strict = new(rapid.Bool().Draw(t, "strict"))
	case 6:
		orders := []dibs.Order{dibs.FIFO, dibs.LIFO}
		if !r.db.AtOnce { // on PostgreSQL it is not determined which admission gives a place, and so the order of equal turns
			orders = append(orders, dibs.Fair)
		}
		c.Order = new(rapid.SampledFrom(orders).Draw(t, "order"))
	case 7:
		c.MaxAttempts = new(rapid.IntRange(1, 4).Draw(t, "attempts"))
	case 8:
		keep := map[dibs.State]**time.Duration{dibs.Completed: &c.KeepCompleted, dibs.Dead: &c.KeepDead, dibs.Cancelled: &c.KeepCancelled}
		least := 0
		if r.flows { // how long a job stays beyond that, which others have come after, is the store's own affair
			least = 1
		}
		*keep[finals.Draw(t, "state")] = new(hours(least, 6).Draw(t, "keep"))
	case 9:
		least := 1
		if r.flows { // the jobs that attempts add have the payload null, and the model takes them all
			least = len("null")
		}
		c.PayloadLimit = new(rapid.IntRange(least, 30).Draw(t, "payload limit"))
	case 10:
		c.JobTimeout = new(hours(0, 3).Draw(t, "job timeout"))
	}
	r.SetQueue(queues.Draw(t, "queue"), c)
}

func (r *Run) randomList(t *rapid.T) {
	f := admin.Filter{Limit: rapid.IntRange(1, 4).Draw(t, "limit")}
	f.State = rapid.SampledFrom([]dibs.State{"", dibs.Waiting, dibs.Blocked, dibs.Running, dibs.Completed, dibs.Dead, dibs.Cancelled}).Draw(t, "state")
	switch rapid.IntRange(0, 4).Draw(t, "filter") {
	case 1:
		f.Queue = queues.Draw(t, "queue")
	case 2:
		f.Kind = kinds.Draw(t, "kind")
	case 3:
		f.Group = groups.Draw(t, "group")
	case 4:
		f.Worker = workers.Draw(t, "worker")
	}
	r.List(f)
}
