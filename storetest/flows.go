package storetest

import (
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// Jobs that come after others. A store may release and end followers a moment after the end that they waited for.
var flowCases = []oneCase{
	{"each job of a chain starts after the one before it is completed", flowChain},
	{"many fan out from one job and one comes after them all", flowFan},
	{"a job that comes after none of a ref starts at once", flowNone},
	{"a callback starts whatever became of the others", flowCallback},
	{"a compensation starts after a failure, and is cancelled after a success", flowCompensation},
	{"a job that dies cancels its followers level by level, with the cause", flowDeath},
	{"followers wait while a job is retried, snoozed and released", flowRetry},
	{"the jobs around one are counted by queue and kind", flowLook},
	{"a flow is counted as far as is asked for", flowUpTo},
	{"an expired lease that kills a job cancels its followers", flowExpiry},
	{"a cancelled job cancels its followers, and a cancelled follower its own", flowCancel},
	{"a job may come after one that waits, runs, is completed or dead", flowExisting},
	{"a job after one that does not exist is refused, and its call inserts nothing", flowUnknown},
	{"a job that is needed in two ways is needed in both", flowTwoNeeds},
	{"refs name earlier jobs of the call only, and many may share one", flowRefs},
	{"a ref on a held unique key names the job that holds it", flowHeldKey},
	{"a ref on a key whose holder is gone names no job, and ids are checked all the same", flowGoneHolder},
	{"a requeued job takes back exactly the jobs that its end has cancelled", flowRequeue},
	{"a requeued job that two deaths have cancelled is cancelled by the other again", flowRequeueTwo},
	{"a follower that still waits waits again for a requeued job", flowRequeueWaiting},
	{"a requeued follower waits again for the jobs that it comes after", flowRequeueFollower},
	{"a requeued job takes back followers that came later, with their times", flowRequeueLate},
	{"a requeued job takes back what it has cancelled though the job between them was deleted", flowRequeueGap},
	{"an ended job is kept until its followers have ended", flowRetention},
	{"an ended job that its followers need is not deleted", flowDelete},
	{"a follower whose first job was deleted by hand is found and ended", flowRepair},
	{"reads show the flow, what a job waits for and the counts", flowReads},
}

// after is a job that comes after others.
func after(options ...func(*dibs.NewJob)) dibs.NewJob {
	j := dibs.NewJob{Kind: "k"}
	for _, o := range options {
		o(&j)
	}
	return j
}

// settled is the time in which followers are released or cancelled: the promised 2 s, and more for a busy machine. It is
// shorter than the 10 s after which upkeep would find those that were forgotten.
const settled = 8 * time.Second

// becomes waits until jobs are in a state.
func (t *test) becomes(want dibs.State, jobs ...int64) {
	t.Helper()
	for _, id := range jobs {
		var got *dibs.RawJob
		began, tries := time.Now(), 0
		t.waitUntil("a follower is "+string(want), func() bool {
			if tries++; tries%20 == 0 {
				t.sweep()
			}
			got = t.get(id)
			return got.State == want || got.State.Final() || time.Since(began) > settled
		})
		if got.State != want {
			t.Fatalf("job %d is %s because of %d, want %s", id, got.State, got.Cause, want)
		}
	}
}

// cancelledBy waits until jobs are cancelled because of another.
func (t *test) cancelledBy(cause int64, jobs ...int64) {
	t.Helper()
	t.becomes(dibs.Cancelled, jobs...)
	for _, id := range jobs {
		equal(t, "cause", t.get(id).Cause, cause)
	}
}

// startsSoon waits until exactly these jobs can be claimed, and claims them.
func (t *test) startsSoon(what string, want ...int64) []*dibs.RawJob {
	t.Helper()
	t.becomes(dibs.Waiting, want...)
	return t.claimExactly(what, want...)
}

func flowChain(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.Ref("c"), dibs.After("b")), after(dibs.After("c")))
	t.inState(dibs.Blocked, all[1:]...)
	for i, id := range all {
		jobs := t.startsSoon("the next of the chain", id)
		t.inState(dibs.Blocked, all[i+1:]...)
		t.complete(jobs...)
	}
	t.inState(dibs.Completed, all...)
	t.claimExactly("after the end")
}

func flowFan(t *test) {
	jobs := []dibs.NewJob{after(dibs.Ref("split"))}
	jobs = append(jobs, copies(20, after(dibs.Ref("page"), dibs.After("split")))...)
	all := t.enqueue(append(jobs, after(dibs.After("page")))...)
	t.complete(t.claimExactly("the first", all[0])...)
	pages := t.startsSoon("the pages", all[1:21]...)
	for _, j := range pages {
		t.inState(dibs.Blocked, all[21])
		t.complete(j)
	}
	t.complete(t.startsSoon("the last", all[21])...)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, blocked, running, completed", []int64{s.Waiting, s.Blocked, s.Running, s.Completed}, []int64{0, 0, 0, 22})
}

func flowNone(t *test) {
	id := t.enqueue(after(dibs.After("nobody"), dibs.AfterEnd("no one"), dibs.AfterFailure("none")))[0]
	equal(t, "flow, waits for", []int64{t.get(id).Flow, int64(t.get(id).WaitsFor)}, []int64{0, 0})
	t.claimExactly("at once", id)
}

func flowCallback(t *test) {
	all := t.enqueue(append(copies(3, after(dibs.Ref("page"))), after(dibs.AfterEnd("page")))...)
	jobs := t.claimExactly("the pages", all[:3]...)
	t.finish(jobs[0].Lease().Complete(nil), jobs[1].Lease().Die("e"))
	t.inState(dibs.Blocked, all[3])
	t.finish(jobs[2].Lease().Cancel("c"))
	t.complete(t.startsSoon("the callback", all[3])...)
}

func flowCompensation(t *test) {
	for _, dies := range []bool{true, false} {
		all := t.enqueue(after(dibs.Ref("charge")), after(dibs.AfterFailure("charge")), after(dibs.After("charge")))
		l := t.claimExactly("the first", all[0])[0].Lease()
		starts, cancelled := all[1], all[2]
		if dies {
			t.finish(l.Die("e"))
		} else {
			t.finish(l.Complete(nil))
			starts, cancelled = cancelled, starts
		}
		t.cancelledBy(all[0], cancelled)
		t.complete(t.startsSoon("what follows", starts)...)
	}
}

// The cause is the job whose own end began it: what a cancelled follower cancels in turn has the same cause.
func flowDeath(t *test) {
	all := t.enqueue(
		after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.Ref("b"), dibs.After("a")),
		after(dibs.Ref("c"), dibs.After("b")), after(dibs.Ref("d"), dibs.After("c")), after(dibs.AfterEnd("d")), after(dibs.AfterFailure("c")),
	)
	last := t.waitFor(t.ctx, t.db, all[4])
	t.finish(t.claimExactly("the first", all[0])[0].Lease().Die("e"))
	t.cancelledBy(all[0], all[1:5]...)
	t.expectEnd(last, all[4], dibs.Cancelled)
	j := t.get(all[4])
	equal(t, "attempt, cancel requested", []any{j.Attempt, j.CancelRequested}, []any{0, false})
	t.becomes(dibs.Waiting, all[5], all[6])
	t.complete(t.claim(dibs.ClaimRequest{N: 10})...) // in either order: each may be released with its own level
	t.inState(dibs.Completed, all[5], all[6])
	s := t.stats(dibs.DefaultQueue)
	equal(t, "blocked, completed, dead, cancelled", []int64{s.Blocked, s.Completed, s.Dead, s.Cancelled}, []int64{0, 2, 1, 4})
}

func flowRetry(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a")), after(dibs.AfterEnd("a")), after(dibs.AfterFailure("a")))
	for _, end := range []func(dibs.Lease) dibs.Outcome{
		func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(0, "e") },
		func(l dibs.Lease) dibs.Outcome { return l.Snooze(0) },
		dibs.Lease.Release,
	} {
		t.finish(end(t.claimExactly("the first again", all[0])[0].Lease()))
		t.inState(dibs.Blocked, all[1:]...)
		t.sweep()
	}
	t.complete(t.claimExactly("the first again", all[0])...)
	t.becomes(dibs.Waiting, all[1:3]...)
	t.cancelledBy(all[0], all[3])
}

func flowExpiry(t *test) {
	first := after(dibs.Ref("a"))
	first.MaxAttempts = 1
	all := t.enqueue(first, after(dibs.Ref("b"), dibs.After("a")), after(dibs.After("b")), after(dibs.AfterFailure("a")))
	j := t.claimOne(dibs.ClaimRequest{Lease: t.someLease()})
	t.expire(j)
	t.becomes(dibs.Dead, all[0])
	t.cancelledBy(all[0], all[1:3]...)
	t.startsSoon("the compensation", all[3])
}

func flowCancel(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.Ref("c"), dibs.After("b")), after(dibs.After("c")), after(dibs.AfterEnd("a")))
	ended, asked := t.cancel(all[2])
	sameIDs(t, "cancelled by hand", append(ended, asked...), all[2:3])
	equal(t, "cause", t.get(all[2]).Cause, int64(0))
	t.cancelledBy(all[2], all[3])
	t.inState(dibs.Blocked, all[1])
	t.cancel(all[0])
	t.cancelledBy(all[0], all[1])
	t.claimExactly("what comes after an end", t.becomesWaiting(all[4])...)
	// A running one ends when its worker says so.
	more := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a")))
	j := t.claimOne(dibs.ClaimRequest{})
	t.cancel(more[0])
	t.inState(dibs.Blocked, more[1])
	t.finish(j.Lease().Cancel("stopped"))
	t.cancelledBy(more[0], more[1])
}

// becomesWaiting waits until jobs can be claimed, and returns them.
func (t *test) becomesWaiting(jobs ...int64) []int64 {
	t.Helper()
	t.becomes(dibs.Waiting, jobs...)
	return jobs
}

func flowExisting(t *test) {
	others := t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	t.finish(jobs[0].Lease().Complete(nil), jobs[1].Lease().Die("e"))
	done, dead, running, waiting := others[0], others[1], others[2], others[3]
	all := t.enqueue(
		after(dibs.After(done)), after(dibs.AfterFailure(dead)), after(dibs.AfterEnd(done, dead)), // start at once
		after(dibs.After(dead)), after(dibs.AfterFailure(done)), // can never start
		after(dibs.After(running, done)), after(dibs.After(waiting)),
	)
	t.cancelledBy(dead, all[3])
	t.cancelledBy(done, all[4])
	t.becomes(dibs.Waiting, all[:3]...)
	t.inState(dibs.Blocked, all[5:]...)
	t.complete(jobs[2])
	t.becomes(dibs.Waiting, all[5])
	t.inState(dibs.Blocked, all[6])
	rest := t.claimExactly("all but the last", waiting, all[0], all[1], all[2], all[5])
	t.complete(rest...)
	t.startsSoon("the last", all[6])
}

func flowUnknown(t *test) {
	one := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	_, err := t.db.Enqueue(t.ctx, []dibs.NewJob{{Kind: "k"}, after(dibs.After(one, one+1_000_000))})
	var bad *dibs.InvalidError
	if !errors.As(err, &bad) || bad.Field != "jobs[1].after[1]" {
		t.Fatalf("got %v, want an error of jobs[1].after[1]", err)
	}
	t.claimExactly("only the first", one)
}

func flowTwoNeeds(t *test) {
	all := t.enqueue(after(dibs.Ref("a"), dibs.Ref("a")), after(dibs.AfterEnd("a"), dibs.After("a")))
	more := t.enqueue(after(dibs.After(all[0]), dibs.AfterEnd(all[0])))
	t.finish(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease().Die("e")) // as in flowRequeueLate
	t.cancelledBy(all[0], all[1], more[0])
	_, err := t.db.Enqueue(t.ctx, []dibs.NewJob{after(dibs.Ref("a")), after(dibs.After("a"), dibs.AfterFailure("a"))})
	var bad *dibs.InvalidError
	if !errors.As(err, &bad) || bad.Field != "jobs[1].after[1]" {
		t.Fatalf("got %v, want an error of jobs[1].after[1]", err)
	}
}

func flowRefs(t *test) {
	for _, c := range []struct {
		field string
		jobs  []dibs.NewJob
	}{
		{"jobs[0].after[0]", []dibs.NewJob{after(dibs.After("a")), after(dibs.Ref("a"))}},
		{"jobs[0].after[0]", []dibs.NewJob{after(dibs.Ref("a"), dibs.After("a"))}},
		{"jobs[0].after[0]", []dibs.NewJob{{Kind: "k", After: []dibs.Dep{{}}}}},
		{"jobs[0].after[0]", []dibs.NewJob{{Kind: "k", After: []dibs.Dep{{ID: 1, Ref: "a"}}}}},
		{"jobs[0].after[0]", []dibs.NewJob{{Kind: "k", After: []dibs.Dep{{Ref: "a", On: "done"}}}}},
		{"jobs[1].after[0]", []dibs.NewJob{{Kind: "k", Ref: "1"}, {Kind: "k", After: []dibs.Dep{{Ref: "17"}}}}},
		{"jobs[0].after[0].ref", []dibs.NewJob{{Kind: "k", After: []dibs.Dep{{Ref: "a\x00"}}}}},
		{"jobs[0].ref", []dibs.NewJob{{Kind: "k", Ref: "a\x00"}}},
	} {
		_, err := t.db.Enqueue(t.ctx, c.jobs)
		var bad *dibs.InvalidError
		if !errors.As(err, &bad) || bad.Field != c.field {
			t.Fatalf("got %v, want an error of %s", err, c.field)
		}
	}
	t.expectEmpty()
	// Refs end with the call.
	t.enqueue(after(dibs.Ref("a")))
	id := t.enqueue(after(dibs.After("a")))[0]
	t.inState(dibs.Waiting, id)
	// A ref names those before the job, not those that come later with the same ref.
	all := t.enqueue(after(dibs.Ref("b")), after(dibs.Ref("c"), dibs.After("b")), after(dibs.Ref("b")))
	t.complete(t.claim(dibs.ClaimRequest{N: 3})...)
	t.becomes(dibs.Waiting, all[1], all[2])
}

func flowHeldKey(t *test) {
	holder := t.enqueue(keyed("u"))[0]
	job := keyed("u")
	job.Ref = "page"
	job.After = []dibs.Dep{{Ref: "first"}}
	done, err := t.db.Enqueue(t.ctx, []dibs.NewJob{after(dibs.Ref("first")), job, after(dibs.After("page"))})
	t.must(err)
	equal(t, "the holder", done[1], dibs.Enqueued{ID: holder, Existing: true})
	jobs := t.claimExactly("the holder waits for nothing", holder, done[0].ID)
	t.complete(jobs[1])
	t.inState(dibs.Blocked, done[2].ID)
	t.complete(jobs[0])
	t.startsSoon("after the holder", done[2].ID)
	// What would change a holder cannot also wait.
	job.IfHeld = dibs.HeldReplace
	_, err = t.db.Enqueue(t.ctx, []dibs.NewJob{after(dibs.Ref("first")), job})
	if !errors.Is(err, dibs.ErrInvalid) {
		t.Fatalf("got %v, want an error", err)
	}
	// A holder that is replaced while it waits for others waits on.
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a"), func(j *dibs.NewJob) { j.UniqueKey = "v" }))
	t.meets(all[1], replacing("v", "new"), dibs.HeldReplace)
	t.inState(dibs.Blocked, all[1])
	equal(t, "payload", string(t.get(all[1]).Payload), `"new"`)
	t.complete(t.claimExactly("the first", all[0])...)
	t.startsSoon("the replaced one", all[1])
}

// A period holds a key longer than its job is kept: then there is nothing to wait for.
func flowGoneHolder(t *test) {
	once := dibs.NewJob{Kind: "k", UniqueKey: "u", UniqueFor: time.Hour, Ref: "page"}
	holder := t.enqueue(once)[0]
	t.complete(t.claimExactly("the holder", holder)...)
	_, err := t.db.DeleteEnded(t.ctx, []int64{holder}, time.Time{})
	t.must(err)
	done, err := t.db.Enqueue(t.ctx, []dibs.NewJob{once, after(dibs.After("page"))})
	t.must(err)
	equal(t, "the holder", done[0], dibs.Enqueued{ID: holder, Existing: true})
	t.startsSoon("the follower of a job that is gone", done[1].ID)
	// Of a job that is not inserted, too, what it comes after must exist.
	once.After = []dibs.Dep{{ID: holder}}
	_, err = t.db.Enqueue(t.ctx, []dibs.NewJob{once})
	var bad *dibs.InvalidError
	if !errors.As(err, &bad) || bad.Field != "jobs[0].after[0]" {
		t.Fatalf("got %v, want an error of jobs[0].after[0]", err)
	}
}
