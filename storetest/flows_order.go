package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// flowOrderCases: what a follower has besides keeps its meaning.
var flowOrderCases = []oneCase{
	{"a follower of a group takes its place once it is released", flowGroup},
	{"a follower in a strict group waits for the group's started job", flowStrict},
	{"followers start in the order of their priorities", flowPriority},
	{"a follower starts no earlier than its own time", flowRunAt},
	{"a follower with an edited time and priority waits on", flowEdited},
	{"a follower in another queue is released there, paused or not", flowQueues},
	{"a queue with a follower that waits is not deleted", flowDeleteQueue},
	{"a hundred followers have one group, and run one at a time", flowManyGrouped},
}

func inGroup(g string, j dibs.NewJob) dibs.NewJob {
	j.Group = g
	return j
}

func flowGroup(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), inGroup("g", after(dibs.After("a"))), grouped("g"), grouped("g"))
	jobs := t.claimExactly("the first of the group, and the first", all[0], all[2])
	t.complete(jobs[0])
	t.waitUntil("the follower waits for its group", func() bool { t.sweep(); return t.get(all[1]).WaitsFor == 0 })
	t.claimExactly("while the group is full")
	t.complete(jobs[1])
	third := t.claimSoon(dibs.ClaimRequest{}, 1)[0] // its run_at is before the follower's release
	t.complete(third)
	last := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	sameIDs(t, "the others", []int64{min(third.ID, last.ID), max(third.ID, last.ID)}, []int64{all[1], all[3]})
}

func flowStrict(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)})
	all := t.enqueue(after(dibs.Ref("a")), inGroup("g", after(dibs.After("a"))), grouped("g"))
	jobs := t.claimExactly("the first ones", all[0], all[2])
	t.finish(jobs[1].Lease().RetryAfter(0, "e"), jobs[0].Lease().Complete(nil))
	t.waitUntil("the follower waits for its group", func() bool { t.sweep(); return t.get(all[1]).WaitsFor == 0 })
	t.complete(t.claimExactly("the started one again", all[2])...)
	equal(t, "the follower", t.claimSoon(dibs.ClaimRequest{}, 1)[0].ID, all[1])
}

func flowPriority(t *test) {
	follower := func(p int) dibs.NewJob {
		j := after(dibs.After("a"))
		j.Priority = new(p)
		return j
	}
	all := t.enqueue(after(dibs.Ref("a")), follower(9), follower(3), follower(5))
	t.complete(t.claimExactly("the first", all[0])...)
	t.startsSoon("by priority", all[2], all[3], all[1])
	t.set(dibs.DefaultQueue, dibs.QueueChange{Order: new(dibs.LIFO)})
	all = t.enqueue(after(dibs.Ref("a")), follower(9), follower(9), follower(5))
	t.complete(t.claimExactly("the first", all[0])...)
	t.becomes(dibs.Waiting, all[1:]...)
	equal(t, "the best priority", t.claimOne(dibs.ClaimRequest{}).ID, all[3])
}

func flowRunAt(t *test) {
	for _, group := range []string{"", "g"} {
		later := inGroup(group, after(dibs.After("a")))
		later.Delay = time.Minute
		all := t.enqueue(after(dibs.Ref("a")), later)
		before := t.get(all[1]).RunAt
		t.inState(dibs.Blocked, all[1])
		t.complete(t.claimExactly("the first", all[0])...)
		t.becomes(dibs.Waiting, all[1])
		equal(t, "run_at", t.get(all[1]).RunAt, before)
		t.claimExactly("before its time")
		t.waitUntilTime(before)
		equal(t, "the follower", t.claimSoon(dibs.ClaimRequest{}, 1)[0].ID, all[1])
	}
}

func flowEdited(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a")), after(dibs.After("a")), inGroup("g", after(dibs.After("a"))))
	at := t.get(all[0]).RunAt.Add(time.Hour)
	sameIDs(t, "edited", t.edit(admin.Edit{RunAt: &at}, all[1]), all[1:2])
	sameIDs(t, "edited", t.edit(admin.Edit{Priority: new(3)}, all[2], all[3]), all[2:])
	t.inState(dibs.Blocked, all[1:]...)
	t.complete(t.claimExactly("the first", all[0])...)
	t.becomes(dibs.Waiting, all[1], all[2])
	equal(t, "run_at", t.get(all[1]).RunAt, at)
	equal(t, "started", len(t.claimSoon(dibs.ClaimRequest{}, 2)), 2)
}

func flowQueues(t *test) {
	first, other := after(dibs.Ref("a")), after(dibs.After("a"))
	first.Queue, other.Queue = "first", "other"
	all := t.enqueue(first, other)
	t.set("other", dibs.QueueChange{Paused: new(true)})
	equal(t, "blocked", t.stats("other").Blocked, int64(1))
	t.complete(t.claimOne(dibs.ClaimRequest{Queue: "first"}))
	t.becomes(dibs.Waiting, all[1])
	equal(t, "claimed of a paused queue", len(t.claim(dibs.ClaimRequest{Queue: "other", N: 1})), 0)
	t.set("other", dibs.QueueChange{Paused: new(false)})
	equal(t, "the follower", t.claimSoon(dibs.ClaimRequest{Queue: "other"}, 1)[0].ID, all[1])
}

func flowDeleteQueue(t *test) {
	first, other := after(dibs.Ref("a")), after(dibs.After("a"))
	first.Queue, other.Queue = "first", "other"
	all := t.enqueue(first, other)
	t.queueStays("other", true)
	t.complete(t.claimOne(dibs.ClaimRequest{Queue: "first"}))
	t.becomes(dibs.Waiting, all[1])
	t.queueStays("first", true) // the follower needs the job that has ended
	t.complete(t.claimOne(dibs.ClaimRequest{Queue: "other"}))
	t.waitUntil("the first job can be deleted", func() bool {
		t.sweep()
		return t.db.DeleteQueue(t.ctx, "first", true) == nil
	})
	t.must(t.db.DeleteQueue(t.ctx, "other", true))
}

func flowManyGrouped(t *test) {
	all := t.enqueue(append([]dibs.NewJob{after(dibs.Ref("a"))}, copies(100, inGroup("g", after(dibs.After("a"))))...)...)
	t.complete(t.claimExactly("the first", all[0])...)
	for range 100 {
		t.complete(t.claimSoon(dibs.ClaimRequest{}, 1)...)
		equal(t, "running", t.stats(dibs.DefaultQueue).Running, int64(0))
	}
	t.inState(dibs.Completed, all...)
}
