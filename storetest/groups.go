package storetest

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Requirement 3: jobs of one concurrency group may all be queued, never run at the
// same time; the first in order runs first. race.go tests groups with many claimers.
var groupCases = []oneCase{
	{"one of a group runs at a time, in order", groupInOrder},
	{"one claim takes the first of each group and all that are free", groupBatch},
	{"the first by priority runs first", groupPriority},
	{"the rest of the group is shown as blocked", groupStates},
	{"a group belongs to its queue", groupPerQueue},
	{"a crash frees the place with the lease and keeps the order", groupCrash},
	{"a released job keeps its place", groupRelease},
	{"a job that waits for its retry lets the next pass", groupRetryPasses},
	{"in a strict queue it holds its place until it is completed or dead", groupStrict},
	{"a queue can become strict and be so no more", groupStrictChanged},
	{"a job of the future does not hold the place", groupFuture},
	{"a job of the future joins its group in its time", groupJoins},
	{"a kind that was not asked for still goes first", groupKinds},
	{"many blocked jobs do not hide the free ones behind them", groupManyBlocked},
	{"jobs in an open transaction block nobody", groupOpenTx},
	{"cancelling the first lets the next pass", groupCancel},
	{"an edit changes who is first", groupEdit},
	{"a requeued job waits for its turn", groupRequeue},
	{"a resumed job keeps the place", groupResume},
}

func grouped(g string) dibs.NewJob { return dibs.NewJob{Kind: "k", Group: g} }

// claimExactly claims all jobs that it can and expects exactly these.
func (t *test) claimExactly(what string, want ...int64) []*dibs.RawJob {
	t.Helper()
	jobs := t.claim(dibs.ClaimRequest{N: 1000})
	sameIDs(t, what, ids(jobs), want)
	return jobs
}

func (t *test) complete(jobs ...*dibs.RawJob) {
	t.Helper()
	t.finish(outcomes(jobs, completed)...)
}

func groupInOrder(t *test) {
	all := t.enqueue(copies(5, grouped("g"))...)
	for _, id := range all {
		jobs := t.claimExactly("the next", id)
		equal(t, "group and limit", []any{jobs[0].Group, jobs[0].GroupLimit}, []any{"g", 1})
		t.claimExactly("meanwhile")
		t.complete(jobs...)
	}
	t.claimExactly("at the end")
}

// A claim must not return jobs one by one because one of them is blocked by its group.
func groupBatch(t *test) {
	const groups, each = 20, 4
	var batch []dibs.NewJob
	for range each {
		for g := range groups {
			batch = append(batch, grouped(fmt.Sprintf("g%d", g)), dibs.NewJob{Kind: "k"})
		}
	}
	all := t.enqueue(batch...)
	for round := range each {
		var want []int64
		for i, id := range all {
			free := i%2 == 1
			if turn := i / (2 * groups); free && round == 0 || !free && turn == round {
				want = append(want, id)
			}
		}
		t.complete(t.claimExactly(fmt.Sprintf("round %d", round), want...)...)
	}
}

func groupPriority(t *test) {
	all := t.enqueue(copies(3, grouped("g"))...)
	better := grouped("g")
	better.Priority = new(1)
	first := t.enqueue(better)[0]
	running := t.claimExactly("the best", first)
	second := t.enqueue(better)[0]
	t.claimExactly("while it runs")
	t.complete(running...)
	t.complete(t.claimExactly("the next best", second)...)
	t.complete(t.claimExactly("the oldest", all[0])...)
	t.claimExactly("the second oldest", all[1])
}

func groupStates(t *test) {
	all := t.enqueue(copies(3, grouped("g"))...)
	t.claimExactly("the first", all[0])
	t.inState(dibs.Running, all[0])
	t.inState(dibs.Blocked, all[1:]...)
	s := t.stats(dibs.DefaultQueue)
	equal(t, "waiting, blocked, running", []int64{s.Waiting, s.Blocked, s.Running}, []int64{0, 2, 1})
	sameIDs(t, "listed as blocked", ids(t.list(admin.Filter{State: dibs.Blocked})), []int64{all[2], all[1]})
	later := grouped("g")
	later.Delay = time.Hour
	t.inState(dibs.Waiting, t.enqueue(later)...)
	equal(t, "scheduled", t.stats(dibs.DefaultQueue).Scheduled, int64(1))
}

func groupPerQueue(t *test) {
	other := grouped("g")
	other.Queue = "q"
	all := t.enqueue(grouped("g"), other, grouped("h"), grouped("g"))
	t.claimExactly("from the default queue", all[0], all[2])
	sameIDs(t, "from the other queue", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 5})), all[1:2])
}

func groupCrash(t *test) {
	all := t.enqueue(copies(3, grouped("g"))...)
	crashed := t.claimExactly("the first", all[0])
	t.expire(crashed...)
	t.sweep()
	reclaimed := t.claimExactly("the first again", all[0])
	equal(t, "attempt", reclaimed[0].Attempt, 2)
	t.complete(reclaimed...)
	t.claimExactly("the second", all[1])
}

func groupRelease(t *test) {
	all := t.enqueue(append(copies(3, grouped("g")), grouped("h"))...)
	jobs := t.claimExactly("the first", all[0], all[3])
	t.finish(jobs[0].Lease().Release())
	t.claimExactly("the first again", all[0])
}

func groupRetryPasses(t *test) {
	all := t.enqueue(copies(3, grouped("g"))...)
	t.finish(t.claimExactly("the first", all[0])[0].Lease().RetryAfter(300*time.Millisecond, "e"))
	second := t.claimExactly("the second", all[1])
	t.waitUntilTime(t.get(all[0]).RunAt)
	t.claimExactly("while the second runs")
	t.finish(second[0].Lease().Snooze(time.Hour))
	third := t.claimExactly("the third, which has waited longer than the retry", all[2])
	t.complete(third...)
	t.claimExactly("the retry", all[0])
}

func groupStrict(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)})
	all := t.enqueue(append(copies(4, grouped("g")), dibs.NewJob{Kind: "k"})...)
	jobs := t.claimExactly("the first and the free one", all[0], all[4])
	past := time.Unix(0, 0)
	t.finish(jobs[0].Lease().RetryAfter(time.Hour, "e"))
	t.claimExactly("while it waits for its retry")
	t.edit(admin.Edit{RunAt: &past}, all[0])
	first := t.claimExactly("the retry", all[0])
	t.finish(first[0].Lease().Snooze(100 * time.Millisecond))
	t.waitUntilTime(t.get(all[0]).RunAt)
	first = t.claimExactly("after it was delayed", all[0])
	t.finish(first[0].Lease().RetryAfter(time.Hour, "e"))
	t.edit(admin.Edit{RunAt: &past}, all[0])
	t.finish(t.claimExactly("the first once more", all[0])[0].Lease().Die("e"))
	t.complete(t.claimExactly("the second after its death", all[1])...)
	t.claimExactly("the third after its completion", all[2])
}

func groupStrictChanged(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)})
	all := t.enqueue(copies(3, grouped("g"))...)
	t.finish(t.claimExactly("the first", all[0])[0].Lease().RetryAfter(time.Hour, "e"))
	t.claimExactly("while strict")
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(false)})
	second := t.claimExactly("the second, now that it may pass", all[1])
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)})
	t.finish(second[0].Lease().RetryAfter(time.Hour, "e"))
	t.claimExactly("while strict again")
}

func groupFuture(t *test) {
	later := grouped("g")
	later.Delay, later.Priority = time.Hour, new(0)
	t.enqueue(later)
	all := t.enqueue(copies(2, grouped("g"))...)
	t.complete(t.claimExactly("the first that is due", all[0])...)
	t.claimExactly("the second that is due", all[1])
}

func groupJoins(t *test) {
	all := t.enqueue(copies(2, grouped("g"))...)
	running := t.claimExactly("the first that is due", all[0])
	soon := grouped("g")
	soon.Delay, soon.Priority = 200*time.Millisecond, new(0)
	better := t.enqueue(soon)
	t.waitUntilTime(t.get(better[0]).RunAt)
	t.claimExactly("while it runs")
	t.complete(running...)
	// The claim itself must admit jobs that have become due, since no sweep runs here.
	t.complete(t.claimExactly("the better one, whose time has come", better...)...)
	t.claimExactly("the last", all[1])
	otherGroup := grouped("h")
	otherGroup.Delay = 200 * time.Millisecond
	id := t.enqueue(otherGroup)[0]
	sameIDs(t, "one alone", ids(t.claimSoon(dibs.ClaimRequest{}, 1)), []int64{id})
}

func groupKinds(t *test) {
	a := grouped("g")
	a.Kind = "a"
	b := grouped("g")
	b.Kind = "b"
	all := t.enqueue(a, b, dibs.NewJob{Kind: "b"})
	onlyB := dibs.ClaimRequest{N: 5, Kinds: []string{"b"}}
	sameIDs(t, "of kind b", ids(t.claim(onlyB)), all[2:])
	t.complete(t.claimExactly("the first", all[0])...)
	sameIDs(t, "of kind b", ids(t.claim(onlyB)), all[1:2])
}

func groupManyBlocked(t *test) {
	hot := t.enqueue(copies(2000, grouped("hot"))...)
	free := t.enqueue(append(copies(3, dibs.NewJob{Kind: "k"}), grouped("cold"))...)
	jobs := t.claimExactly("the first of each and the free ones", append(hot[:1:1], free...)...)
	t.complete(jobs[1:]...)
	more := t.enqueue(dibs.NewJob{Kind: "k"})
	t.claimExactly("one more free one", more...)
}

func groupOpenTx(t *test) {
	if !t.OpenTx {
		t.Skip("one writer at a time: nobody else writes while a transaction is open")
	}
	all := t.enqueue(copies(2, grouped("g"))...)
	tx := t.beginTx()
	better := grouped("g")
	better.Priority = new(1)
	inTx := t.enqueueOn(tx, better, grouped("h"))
	running := t.claimExactly("the first that is committed", all[0])
	more := t.enqueue(grouped("g"), grouped("h"))
	t.complete(running...)
	running = t.claimExactly("the next, and the first of h", all[1], more[1])
	t.must(tx.Commit())
	t.claimExactly("after the commit, while others run")
	t.complete(running...)
	t.claimSoon(dibs.ClaimRequest{}, 2)
	t.inState(dibs.Running, inTx...)
	t.inState(dibs.Blocked, more[0])
}

func groupCancel(t *test) {
	all := t.enqueue(copies(5, grouped("g"))...)
	t.cancel(all[0], all[2])
	running := t.claimExactly("the second", all[1])
	t.cancel(all[1])
	t.claimExactly("while the second still runs")
	t.finish(running[0].Lease().Cancel(""))
	t.claimExactly("the fourth", all[3])
	t.inState(dibs.Cancelled, all[:3]...)
	t.inState(dibs.Blocked, all[4])
}

func groupEdit(t *test) {
	all := t.enqueue(copies(4, grouped("g"))...)
	running := t.claimExactly("the first", all[0])
	sameIDs(t, "edited", t.edit(admin.Edit{Priority: new(0)}, all[2]), all[2:3])
	t.claimExactly("while the first runs")
	t.finish(running[0].Lease().Release())
	second := t.claimExactly("the better one", all[2])
	t.complete(second...)
	at := time.Now().Add(time.Hour)
	t.edit(admin.Edit{RunAt: &at}, all[0])
	t.complete(t.claimExactly("the second, the first being put off", all[1])...)
	past := time.Unix(0, 0)
	t.edit(admin.Edit{RunAt: &past}, all[0])
	t.complete(t.claimExactly("the last", all[3])...)
	t.claimExactly("the first, due since the edit", all[0])
}

func groupRequeue(t *test) {
	all := t.enqueue(copies(3, grouped("g"))...)
	t.finish(t.claimExactly("the first", all[0])[0].Lease().Die("e"))
	second := t.claimExactly("the second", all[1])
	sameIDs(t, "requeued", t.requeue(all[0]), all[:1])
	t.claimExactly("while the second runs")
	t.complete(second...)
	t.complete(t.claimExactly("the third", all[2])...)
	t.claimExactly("the requeued one", all[0])
}

func groupResume(t *test) {
	all := t.enqueue(copies(2, grouped("g"))...)
	t.claimExactly("the first", all[0])
	jobs := t.resume(dibs.ClaimRequest{Worker: "w", Lease: time.Hour})
	sameIDs(t, "resumed", ids(jobs), all[:1])
	t.claimExactly("while it runs")
	t.complete(jobs...)
	t.claimExactly("the second", all[1])
}
