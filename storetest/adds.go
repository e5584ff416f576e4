package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Jobs that are added by the write that completes another: Outcome.Add, RawJob.Add.
var addCases = []oneCase{
	{"what an attempt adds is there if and only if it is completed", addCompleted},
	{"a refused outcome adds nothing, and the others of the call add theirs", addRefused},
	{"only a completed attempt may add jobs, and bad ones are refused by name", addInvalid},
	{"a payload that is too large for its queue keeps the outcome from being written", addTooLarge},
	{"added jobs may come after each other, and after jobs that exist", addAfter},
	{"what follows a job follows what it adds, through more than one step", addFollowed},
	{"what follows a job is cancelled if a job that it added dies", addFollowedDies},
	{"added jobs take over the flow", addFlow},
	{"an added job with a held unique key is not inserted", addUnique},
	{"no added job waits for itself, and none waits for what it comes after", addCycles},
	{"of two that finish at once one adds", addAtOnce},
	{"a handler adds jobs, a failed one does not, a repeated one adds them once", addHandler},
}

var txAddCases = []oneCase{
	{"what an attempt adds in a transaction is there if and only if that commits", txAdd},
	{"a handler adds jobs in its own transaction", txAddHandler},
}

// adding is the outcome of a completed job that adds some.
func adding(j *dibs.RawJob, jobs ...dibs.NewJob) dibs.Outcome {
	o := j.Lease().Complete(nil)
	o.Add = jobs
	return o
}

// kindsOf counts the jobs of the list by their kinds.
func kindsOf(jobs []*dibs.RawJob) map[string]int {
	n := map[string]int{}
	for _, j := range jobs {
		n[j.Kind]++
	}
	return n
}

func addCompleted(t *test) {
	j := t.runningJob()
	before := t.stats(dibs.DefaultQueue).Enqueued
	o := adding(j, dibs.NewJob{Kind: "a", Payload: "one"}, dibs.NewJob{Kind: "a", Payload: "two", Queue: "q", Priority: new(7)})
	o.Result = json.RawMessage(`"r"`)
	t.finish(o)
	t.inState(dibs.Completed, j.ID)
	equal(t, "result", string(t.get(j.ID).Result), `"r"`)
	one, two := t.claimOne(dibs.ClaimRequest{}), t.claimOne(dibs.ClaimRequest{Queue: "q"})
	equal(t, "payloads", []string{string(one.Payload), string(two.Payload)}, []string{`"one"`, `"two"`})
	equal(t, "kind, priority", []any{two.Kind, two.Priority}, []any{"a", 7})
	equal(t, "enqueued", t.stats(dibs.DefaultQueue).Enqueued, before+1)
	t.complete(one, two)
}

func addRefused(t *test) {
	a, b := t.runningJob(), t.runningJob()
	stale := adding(a, dibs.NewJob{Kind: "stale"})
	stale.Token = dibs.Token{1}
	t.expectRefused([]int64{a.ID}, stale, adding(b, dibs.NewJob{Kind: "good"}))
	jobs := t.claim(dibs.ClaimRequest{N: 10})
	equal(t, "added", kindsOf(jobs), map[string]int{"good": 1})
	t.complete(append(jobs, a)...)
	t.expectRefused([]int64{b.ID}, adding(b, dibs.NewJob{Kind: "again"}))
	sameIDs(t, "added by a second finish", ids(t.claim(dibs.ClaimRequest{N: 10})), nil)
}

func addInvalid(t *test) {
	j, other := t.runningJob(), t.runningJob()
	refuses := func(field string, outcomes ...dibs.Outcome) {
		t.Helper()
		err := t.db.Finish(t.ctx, outcomes)
		var rule *dibs.InvalidError
		if !errors.As(err, &rule) || rule.Field != field {
			t.Fatalf("got error %v, want one of field %s", err, field)
		}
		t.inState(dibs.Running, j.ID, other.ID)
	}
	for _, o := range []dibs.Outcome{j.Lease().Retry("e"), j.Lease().Snooze(0), j.Lease().Release(), j.Lease().Die("e"), j.Lease().Cancel("e")} {
		o.Add = []dibs.NewJob{{Kind: "a"}}
		refuses("outcomes[1].add", other.Lease().Complete(nil), o)
	}
	refuses("outcomes[0].add[1].kind", adding(j, dibs.NewJob{Kind: "a"}, dibs.NewJob{}), other.Lease().Complete(nil))
	refuses("outcomes[0].add[0].after[0]", adding(j, dibs.NewJob{Kind: "a", After: []dibs.Dep{{Ref: "b"}}}, dibs.NewJob{Kind: "b", Ref: "b"}))
	refuses("outcomes[1].add", adding(other, copies(6000, dibs.NewJob{Kind: "a"})...), adding(j, copies(6000, dibs.NewJob{Kind: "a"})...))
	t.complete(j, other)
	sameIDs(t, "added", ids(t.claim(dibs.ClaimRequest{N: 10})), nil)
}

func addTooLarge(t *test) {
	t.set("small", dibs.QueueChange{PayloadLimit: new(100)})
	j := t.runningJob()
	err := t.db.Finish(t.ctx, []dibs.Outcome{adding(j, dibs.NewJob{Kind: "a"}, dibs.NewJob{Kind: "a", Queue: "small", Payload: strings.Repeat("x", 100)})})
	var rule *dibs.InvalidError
	if !errors.As(err, &rule) || !strings.Contains(rule.Field, "payload") {
		t.Fatalf("got error %v, want one of the payload", err)
	}
	t.inState(dibs.Running, j.ID)
	sameIDs(t, "added", ids(t.claim(dibs.ClaimRequest{N: 10})), nil)
	t.complete(j)
}

func addAfter(t *test) {
	old := t.enqueue(dibs.NewJob{Kind: "old", Queue: "q"})[0]
	j := t.runningJob()
	last := dibs.NewJob{Kind: "last", After: []dibs.Dep{{Ref: "first"}, {ID: old}}}
	t.finish(adding(j, dibs.NewJob{Kind: "first", Ref: "first"}, dibs.NewJob{Kind: "first", Ref: "first"}, last))
	jobs := t.claim(dibs.ClaimRequest{N: 10})
	equal(t, "started", kindsOf(jobs), map[string]int{"first": 2})
	t.complete(jobs...)
	sameIDs(t, "claimed before the old one", ids(t.claim(dibs.ClaimRequest{N: 10})), nil)
	t.complete(t.claimSoon(dibs.ClaimRequest{Queue: "q"}, 1)...) // a claim passes over a job while it is marked as followed
	final := t.claimSoon(dibs.ClaimRequest{}, 1)
	equal(t, "started", kindsOf(final), map[string]int{"last": 1})
	t.complete(final...)
}

func addFollowed(t *test) {
	done := t.enqueue(dibs.NewJob{Kind: "root", Ref: "root"}, dibs.NewJob{Kind: "end", After: []dibs.Dep{{Ref: "root"}}})
	t.finish(adding(t.claimOne(dibs.ClaimRequest{}), copies(2, dibs.NewJob{Kind: "child"})...))
	if n := t.get(done[1]).WaitsFor; n < 2 || n > 3 { // the end of the root may be noticed already
		t.Fatalf("what follows the root waits for %d jobs, want the two that were added, and perhaps the root", n)
	}
	children := t.claim(dibs.ClaimRequest{N: 10})
	equal(t, "started", kindsOf(children), map[string]int{"child": 2})
	t.finish(adding(children[0], dibs.NewJob{Kind: "grandchild"}))
	t.complete(children[1])
	grand := t.claim(dibs.ClaimRequest{N: 10})
	equal(t, "started", kindsOf(grand), map[string]int{"grandchild": 1})
	t.inState(dibs.Blocked, done[1])
	t.complete(grand...)
	end := t.claimSoon(dibs.ClaimRequest{}, 1)
	sameIDs(t, "started at the end", ids(end), done[1:])
	t.complete(end...)
}

// What comes after a job comes after what its end adds, but for that which an added job itself comes after.
func addCycles(t *test) {
	// Two jobs that come after the one that adds them: neither after itself, nor after the other.
	parent := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	t.finish(adding(t.claimOne(dibs.ClaimRequest{}), copies(2, dibs.NewJob{Kind: "k", After: []dibs.Dep{{ID: parent}}})...))
	t.complete(t.claimSoon(dibs.ClaimRequest{}, 2)...)
	// One that comes after its adder's follower: at once, or through another job.
	for _, through := range []bool{false, true} {
		all := t.enqueue(dibs.NewJob{Kind: "k", Ref: "p"}, dibs.NewJob{Kind: "k", Ref: "q", After: []dibs.Dep{{Ref: "p"}}})
		last := all[1]
		if through {
			last = t.enqueue(dibs.NewJob{Kind: "k", After: []dibs.Dep{{ID: last}}})[0]
		}
		t.finish(adding(t.claimSoon(dibs.ClaimRequest{}, 1)[0], dibs.NewJob{Kind: "added", After: []dibs.Dep{{ID: last}}}))
		t.complete(t.startsSoon("the follower", all[1])...)
		if through {
			t.complete(t.startsSoon("its follower", last)...)
		}
		added := t.claimSoon(dibs.ClaimRequest{}, 1)
		equal(t, "the last", added[0].Kind, "added")
		t.complete(added...)
	}
	// Two jobs end together, and each adds one after the other's follower: neither follower waits for an added job.
	four := t.enqueue(dibs.NewJob{Kind: "k", Ref: "p"}, dibs.NewJob{Kind: "k", Ref: "q"}, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: "p"}}}, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: "q"}}})
	both := t.claimSoon(dibs.ClaimRequest{}, 2)
	t.finish(adding(both[0], dibs.NewJob{Kind: "k", After: []dibs.Dep{{ID: four[3]}}}), adding(both[1], dibs.NewJob{Kind: "k", After: []dibs.Dep{{ID: four[2]}}}))
	for range 2 {
		t.complete(t.claimSoon(dibs.ClaimRequest{}, 2)...)
	}
	// Two added jobs come after a follower each, and a third after none.
	two := t.enqueue(dibs.NewJob{Kind: "k", Ref: "p"}, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: "p"}}}, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: "p"}}})
	t.finish(adding(t.claimSoon(dibs.ClaimRequest{}, 1)[0],
		dibs.NewJob{Kind: "k", After: []dibs.Dep{{ID: two[2]}}}, dibs.NewJob{Kind: "k", After: []dibs.Dep{{ID: two[1]}}}, dibs.NewJob{Kind: "free"}))
	free := t.claimSoon(dibs.ClaimRequest{}, 1)
	equal(t, "the only one that is free", free[0].Kind, "free")
	t.complete(free...)
	for range 2 {
		t.complete(t.claimSoon(dibs.ClaimRequest{}, 2)...)
	}
	// A requeued job adds one after its follower that has ended: both are requeued, and one waits for the other.
	all := t.enqueue(dibs.NewJob{Kind: "k", Ref: "p"}, dibs.NewJob{Kind: "k", After: []dibs.Dep{{Ref: "p"}}})
	t.complete(t.claimExactly("the first", all[0])...)
	t.complete(t.startsSoon("the follower", all[1])...)
	t.requeue(all[0])
	t.finish(adding(t.claimSoon(dibs.ClaimRequest{}, 1)[0], dibs.NewJob{Kind: "added", After: []dibs.Dep{{ID: all[1]}}}))
	added := t.claimSoon(dibs.ClaimRequest{}, 1)
	t.complete(added...)
	t.requeue(all[1], added[0].ID)
	t.complete(t.startsSoon("the follower again", all[1])...)
	t.complete(t.startsSoon("the added one again", added[0].ID)...)
}

func addFollowedDies(t *test) {
	done := t.enqueue(dibs.NewJob{Kind: "root", Ref: "root"}, dibs.NewJob{Kind: "end", After: []dibs.Dep{{Ref: "root"}}})
	t.finish(adding(t.claimOne(dibs.ClaimRequest{}), dibs.NewJob{Kind: "child"}))
	child := t.claimOne(dibs.ClaimRequest{})
	t.finish(child.Lease().Die("no"))
	t.waitUntil("the follower is cancelled", func() bool { t.sweep(); return t.get(done[1]).State == dibs.Cancelled })
	equal(t, "cause", t.get(done[1]).Cause, child.ID)
}

func addFlow(t *test) {
	done := t.enqueue(dibs.NewJob{Kind: "root", Ref: "root"}, dibs.NewJob{Kind: "end", After: []dibs.Dep{{Ref: "root"}}})
	t.finish(adding(t.claimOne(dibs.ClaimRequest{}), dibs.NewJob{Kind: "child"}))
	child := t.claimOne(dibs.ClaimRequest{})
	equal(t, "flow", t.get(child.ID).Flow, done[0])
	t.complete(child)
	t.complete(t.claimSoon(dibs.ClaimRequest{}, 1)...)
}

func addUnique(t *test) {
	holder := t.enqueue(dibs.NewJob{Kind: "a", Queue: "q", UniqueKey: "u"})[0]
	t.finish(adding(t.runningJob(), dibs.NewJob{Kind: "a", Queue: "q", UniqueKey: "u"}))
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 10})), []int64{holder})
}

func addAtOnce(t *test) {
	t.goroutines()
	const rounds = 20
	other := t.Another(t)
	for range rounds {
		j := t.runningJob()
		var written atomic.Int32
		var both sync.WaitGroup
		for _, db := range []interface {
			Finish(context.Context, []dibs.Outcome) error
		}{t.db, other} {
			both.Go(func() {
				switch err := db.Finish(t.ctx, []dibs.Outcome{adding(j, dibs.NewJob{Kind: "added"})}); {
				case err == nil:
					written.Add(1)
				case !errors.Is(err, dibs.ErrLeaseLost):
					t.Error(err)
				}
			})
		}
		both.Wait()
		equal(t, "written", written.Load(), int32(1))
		added := t.claim(dibs.ClaimRequest{N: 10})
		equal(t, "added", len(added), 1)
		t.complete(added...)
	}
}

func addHandler(t *test) {
	t.enqueue(dibs.NewJob{Kind: "parent"})
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &dibs.Backoff{Base: time.Millisecond, Factor: 1, Max: time.Millisecond}})
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	w := &dibs.Worker{Store: t.db, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	var handled atomic.Int32
	dibs.Handle(w, "parent", func(_ context.Context, job *dibs.Job[any]) error {
		job.Add(dibs.NewJob{Kind: "child", Payload: job.Attempt})
		if job.Attempt == 1 {
			return dibs.RetryAfter(0, errors.New("no"))
		}
		return nil
	})
	dibs.Handle(w, "child", func(_ context.Context, job *dibs.Job[int]) error {
		if job.Payload != 2 {
			t.Errorf("attempt %d has added a job", job.Payload)
		}
		if handled.Add(1) == 1 {
			job.Add(dibs.NewJob{Kind: ""}) // refused: the attempt is retried
			return nil
		}
		stop()
		return nil
	})
	t.must(w.Run(ctx))
	jobs := t.list(admin.Filter{State: dibs.Completed})
	equal(t, "jobs", kindsOf(jobs), map[string]int{"parent": 1, "child": 1})
	for _, j := range jobs {
		if j.Kind == "child" && (len(j.Errors) != 1 || !strings.Contains(fmt.Sprint(j.Errors), "add[0].kind")) {
			t.Errorf("errors of the child: %v", j.Errors)
		}
	}
}

func txAdd(t *test) {
	j := t.runningJob()
	tx := t.beginTx()
	t.must(tx.Finish(t.ctx, []dibs.Outcome{adding(j, dibs.NewJob{Kind: "lost"})}))
	t.must(tx.Rollback())
	t.inState(dibs.Running, j.ID)
	sameIDs(t, "added by what was rolled back", ids(t.claim(dibs.ClaimRequest{N: 10})), nil)

	tx = t.beginTx()
	stale := adding(j, dibs.NewJob{Kind: "stale"})
	stale.Token = dibs.Token{1}
	t.expectLost(tx.Finish(t.ctx, []dibs.Outcome{stale}), j.ID)
	t.must(tx.Finish(t.ctx, []dibs.Outcome{adding(j, dibs.NewJob{Kind: "kept"})}))
	t.must(tx.Commit())
	t.inState(dibs.Completed, j.ID)
	jobs := t.claim(dibs.ClaimRequest{N: 10})
	equal(t, "added", kindsOf(jobs), map[string]int{"kept": 1})
	t.complete(jobs...)
}

func txAddHandler(t *test) {
	count := t.effects()
	done := t.enqueue(dibs.NewJob{Kind: "parent", Ref: "p"}, dibs.NewJob{Kind: "last", After: []dibs.Dep{{Ref: "p"}}})
	j := t.claimOne(dibs.ClaimRequest{})
	tx := t.beginTx()
	t.must(tx.Exec(t.ctx, "insert into effect (job) values (1)"))
	j.Add(dibs.NewJob{Kind: "child"})
	t.must(j.FinishIn(t.ctx, tx, "r"))
	t.must(tx.Commit())
	tx.Wake()
	equal(t, "effects", count(), 1)
	child := t.claimOne(dibs.ClaimRequest{})
	equal(t, "kind", child.Kind, "child")
	t.complete(child)
	sameIDs(t, "started at the end", ids(t.claimSoon(dibs.ClaimRequest{}, 1)), done[1:])
}
