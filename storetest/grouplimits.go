package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The limit of jobs of one group that run at once. Requirement 3: a group key with a limit
// (default 1), exact, also across batches, workers and crashes.
var groupLimitCases = []oneCase{
	{"the queue's limit holds for each of its groups", limitOfQueue},
	{"a group's own limit counts more, and can be taken away", limitOfGroup},
	{"a limit that grows takes effect at once", limitGrows},
	{"a limit that shrinks holds from the next claim on", limitShrinks},
	{"a limit that shrinks holds in strict order too", limitShrinksStrict},
	{"a limit of another queue's group is another", limitOtherQueue},
	{"another store follows at once", limitElsewhere},
	{"what failed within the limit lets as many pass", limitRetry},
	{"crashes within the limit free as many places", limitCrash},
	{"who looks sees how many jobs wait for each group", limitBacklogs},
	{"the queue's concurrency limit holds as well", limitAndConcurrency},
}

func limitOfQueue(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(2)})
	all := t.enqueue(append(copies(5, grouped("g")), copies(3, grouped("h"))...)...)
	jobs := t.claimExactly("two of each", all[0], all[1], all[5], all[6])
	equal(t, "group limit", jobs[0].GroupLimit, 2)
	t.complete(jobs[0])
	second := t.claimExactly("one more of g", all[2])
	t.complete(jobs[1], second[0], jobs[2])
	t.claimExactly("the rest", all[3], all[4], all[7])
}

func limitBacklogs(t *test) {
	const most = 1000 // how many jobs of a group are counted at most
	t.setGroup(dibs.DefaultQueue, "b", 2)
	t.enqueue(grouped("a"), grouped("a"), grouped("only-one"), dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k", Group: "later", Delay: time.Hour})
	t.enqueue(copies(most+3, grouped("b"))...)
	t.enqueue(copies(3, dibs.NewJob{Queue: "other", Kind: "k", Group: "x"})...)
	t.claimSoon(dibs.ClaimRequest{}, 5)
	want := []admin.Backlog{{Group: "a", Places: 1, Blocked: 1}, {Group: "b", Places: 2, Blocked: most}}
	read := func(queue, after string) []admin.Backlog {
		t.Helper()
		got, err := t.db.Backlogs(t.ctx, queue, after)
		t.must(err)
		return got
	}
	equal(t, "backlogs", read(dibs.DefaultQueue, ""), want)
	equal(t, "backlogs after a", read(dibs.DefaultQueue, "a"), want[1:])
	equal(t, "backlogs after b", len(read(dibs.DefaultQueue, "b")), 0)
	equal(t, "backlogs of an unknown queue", len(read("unknown", "")), 0)

	var many []dibs.NewJob
	for i := range admin.MaxBacklogs + 2 {
		many = append(many, copies(2, dibs.NewJob{Queue: "many", Kind: "k", Group: fmt.Sprintf("g%03d", i)})...)
	}
	t.enqueue(many...)
	t.claimSoon(dibs.ClaimRequest{Queue: "many"}, admin.MaxBacklogs+2)
	first := read("many", "")
	equal(t, "groups at once", len(first), admin.MaxBacklogs)
	rest := read("many", first[len(first)-1].Group)
	equal(t, "groups after these", rest, []admin.Backlog{{Group: "g500", Places: 1, Blocked: 1}, {Group: "g501", Places: 1, Blocked: 1}})
	for field, of := range map[string][2]string{"queue": {"", "a"}, "after": {"q", "a\nb"}} {
		_, err := t.db.Backlogs(t.ctx, of[0], of[1])
		invalid(t, err, field)
	}
}

func (t *test) setGroup(queue, group string, limit int) {
	t.Helper()
	t.must(t.db.ChangeGroup(t.ctx, queue, group, dibs.GroupChange{Limit: &limit}.Apply))
}

func limitOfGroup(t *test) {
	all := t.enqueue(append(copies(6, grouped("g")), copies(2, grouped("h"))...)...)
	t.setGroup(dibs.DefaultQueue, "g", 3)
	jobs := t.claimExactly("three of g, one of h", all[0], all[1], all[2], all[6])
	equal(t, "group limits", []int{jobs[0].GroupLimit, jobs[3].GroupLimit}, []int{3, 1})
	equal(t, "group limit of a blocked job", t.get(all[5]).GroupLimit, 3)
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(2)})
	t.claimExactly("another of h", all[7])
	t.setGroup(dibs.DefaultQueue, "g", 0)
	t.complete(jobs[0])
	t.claimExactly("while two of g run")
	t.complete(jobs[1])
	t.claimExactly("back to the queue's limit", all[3])
}

func limitGrows(t *test) {
	all := t.enqueue(copies(8, grouped("g"))...)
	t.claimExactly("one", all[0])
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(3)})
	t.claimExactly("two more", all[1:3]...)
	t.setGroup(dibs.DefaultQueue, "g", 6)
	t.claimExactly("three more", all[3:6]...)
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(100)})
	t.claimExactly("the group's own limit holds")
	t.setGroup(dibs.DefaultQueue, "g", 0)
	t.claimExactly("all", all[6:]...)
}

func limitShrinks(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(4)})
	all := t.enqueue(copies(8, grouped("g"))...)
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	sameIDs(t, "three", ids(jobs), all[:3])
	// The fourth job had been admitted but not claimed; it must be blocked again.
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(2)})
	for _, j := range jobs[:2] {
		t.claimExactly("while two or more run")
		t.complete(j)
	}
	next := t.claimExactly("the fourth", all[3])
	t.setGroup(dibs.DefaultQueue, "g", 1)
	t.complete(jobs[2])
	t.claimExactly("while one runs")
	t.complete(next...)
	t.claimExactly("the fifth", all[4])
}

func limitShrinksStrict(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(3), Strict: new(true)})
	all := t.enqueue(copies(4, grouped("g"))...)
	jobs := t.claimExactly("three", all[:3]...)
	t.finish(jobs[0].Lease().Release(), jobs[1].Lease().RetryAfter(time.Hour, "e"), jobs[2].Lease().Release())
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(1)})
	first := t.claimExactly("the first of the three", all[0])
	t.complete(first...)
	t.claimExactly("the other that is due", all[2])
}

func limitOtherQueue(t *test) {
	other := grouped("g")
	other.Queue = "q"
	all := t.enqueue(grouped("g"), grouped("g"), other, other, other)
	t.setGroup("q", "g", 2)
	t.claimExactly("from the default queue", all[0])
	sameIDs(t, "from the other queue", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 5})), all[2:4])
}

func limitElsewhere(t *test) {
	other := t.Another(t)
	all := t.enqueue(copies(6, grouped("g"))...)
	sameIDs(t, "by the other store", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), all[:1])
	t.setGroup(dibs.DefaultQueue, "g", 2)
	sameIDs(t, "by the other store", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), all[1:2])
	_, err := other.ChangeQueue(t.ctx, dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(4)}.Apply)
	t.must(err)
	t.must(other.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", dibs.GroupChange{Limit: new(0)}.Apply))
	t.claimExactly("by this store", all[2:4]...)
}

func limitRetry(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(3)})
	all := t.enqueue(copies(6, grouped("g"))...)
	jobs := t.claimExactly("three", all[:3]...)
	t.finish(jobs[0].Lease().RetryAfter(time.Hour, "e"), jobs[2].Lease().Snooze(time.Hour))
	t.claimExactly("two more", all[3:5]...)
}

func limitCrash(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(3)})
	all := t.enqueue(copies(6, grouped("g"))...)
	jobs := t.claimExactly("three", all[:3]...)
	t.expire(jobs[0], jobs[1])
	t.sweep()
	t.claimExactly("the same two again", all[:2]...)
	t.complete(jobs[2])
	t.claimExactly("one more", all[3])
}

func limitAndConcurrency(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(3)})
	all := t.enqueue(slices.Concat(copies(2, grouped("g")), copies(2, grouped("h")), copies(3, dibs.NewJob{Kind: "k"}))...)
	jobs := t.claimExactly("three", all[0], all[2], all[4])
	t.complete(jobs[0])
	next := t.claimExactly("the second of g", all[1])
	t.complete(next[0], jobs[1], jobs[2])
	t.claimExactly("three more", all[3], all[5], all[6])
}
