package storetest

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// The limit of a queue over all workers. Requirement 5: serialise all work: a queue-level
// limit of 1. race.go tests it with many claimers.
var concurrencyCases = []oneCase{
	{"never more run than the limit says", concurrencyHolds},
	{"every ending frees the place", concurrencyFreed},
	{"a limit of 1 serialises the queue", concurrencyOne},
	{"a limit that is set while jobs run counts them", concurrencySet},
	{"a limit that is lowered lets the running ones end", concurrencyLowered},
	{"a limit that is raised or removed takes effect at once", concurrencyRaised},
	{"another store follows at once", concurrencyElsewhere},
	{"a crash frees the place with the lease", concurrencyCrash},
	{"an extended lease keeps the place", concurrencyExtended},
	{"a resumed job keeps the place", concurrencyResumed},
	{"order and kinds hold", concurrencyOrder},
}

func (t *test) limited(limit, jobs int) []int64 {
	t.Helper()
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: &limit})
	return t.enqueue(copies(jobs, dibs.NewJob{Kind: "k"})...)
}

func concurrencyHolds(t *test) {
	all := t.limited(3, 10)
	first := t.claim(dibs.ClaimRequest{N: 2})
	sameIDs(t, "two", ids(first), all[:2])
	t.claimExactly("one more", all[2])
	t.claimExactly("the limit is reached")
	t.inState(dibs.Running, all[:3]...)
	t.complete(first[0])
	t.claimExactly("one more", all[3])
	t.claimExactly("the limit is reached")
	equal(t, "running", t.stats(dibs.DefaultQueue).Running, int64(3))
}

func concurrencyFreed(t *test) {
	t.limited(1, 20)
	for i := range endings(dibs.Lease{}) {
		j := t.claimOne(dibs.ClaimRequest{})
		t.claimExactly(fmt.Sprintf("while job %d runs", j.ID))
		t.finish(endings(j.Lease())[i])
	}
	equal(t, "claimed at the end", len(t.claim(dibs.ClaimRequest{N: 5})), 1)
}

func concurrencyOne(t *test) {
	all := t.limited(1, 5)
	for _, id := range all {
		j := t.claimExactly("the next", id)
		t.claimExactly("meanwhile")
		t.complete(j...)
	}
}

func concurrencySet(t *test) {
	all := t.enqueue(copies(8, dibs.NewJob{Kind: "k"})...)
	running := t.claim(dibs.ClaimRequest{N: 4})
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(3)})
	t.claimExactly("while four run")
	t.complete(running[0])
	t.claimExactly("while three run")
	t.complete(running[1])
	t.claimExactly("one more", all[4])
	t.claimExactly("while three run again")
}

func concurrencyLowered(t *test) {
	all := t.limited(5, 10)
	running := t.claimExactly("five", all[:5]...)
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(2)})
	for i, j := range running {
		if i < 4 {
			t.claimExactly("while two or more run")
		}
		t.complete(j)
	}
	t.claimExactly("two", all[5:7]...)
}

func concurrencyRaised(t *test) {
	all := t.limited(1, 10)
	t.claimExactly("one", all[0])
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(4)})
	t.claimExactly("three more", all[1:4]...)
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(0)})
	running := t.claimExactly("all", all[4:]...)
	t.complete(running...)
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(5)})
	more := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	t.claimExactly("one more beside the four that run", more[0])
}

func concurrencyElsewhere(t *test) {
	other := t.Another(t)
	all := t.enqueue(copies(10, dibs.NewJob{Kind: "k"})...)
	sameIDs(t, "two", ids(t.claimOn(other, dibs.ClaimRequest{N: 2})), all[:2])
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(3)})
	sameIDs(t, "one more", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), all[2:3])
	t.claimExactly("the limit is reached")
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(2)})
	sameIDs(t, "lowered", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), nil)
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(0)})
	sameIDs(t, "removed", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), all[3:8])
}

func concurrencyCrash(t *test) {
	all := t.limited(2, 4)
	jobs := t.claimExactly("two", all[:2]...)
	t.expire(jobs[0])
	reclaimed := t.claimSoon(dibs.ClaimRequest{}, 1)
	if id := reclaimed[0].ID; id != all[0] && id != all[2] {
		t.Fatalf("claimed job %d, want the crashed one or the next", id)
	}
	t.sweep()
	t.claimExactly("the limit is reached")
	t.complete(jobs[1])
	equal(t, "claimed", len(t.claim(dibs.ClaimRequest{N: 5})), 1)
}

func concurrencyExtended(t *test) {
	all := t.limited(1, 2)
	j := t.claimOne(dibs.ClaimRequest{Lease: t.someLease()})
	t.extendAll(time.Hour, j.Lease())
	t.waitUntilTime(j.LeaseUntil)
	t.claimExactly("while the extended lease lasts")
	t.complete(j)
	t.claimExactly("the second", all[1])
}

func concurrencyResumed(t *test) {
	all := t.limited(2, 4)
	t.claimExactly("two", all[:2]...)
	jobs := t.resume(dibs.ClaimRequest{Worker: "w", Lease: time.Hour})
	sameIDs(t, "resumed", ids(jobs), all[:2])
	t.claimExactly("while they run")
	t.complete(jobs[0])
	t.claimExactly("one more", all[2])
	t.claimExactly("the limit is reached")
}

func concurrencyOrder(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(3), Order: new(dibs.LIFO)})
	all := t.enqueue(dibs.NewJob{Kind: "a"}, dibs.NewJob{Kind: "b"}, dibs.NewJob{Kind: "b", Priority: new(1)}, dibs.NewJob{Kind: "b"}, dibs.NewJob{Kind: "a"})
	sameIDs(t, "of kind b", ids(t.claim(dibs.ClaimRequest{N: 2, Kinds: []string{"b"}})), []int64{all[2], all[3]})
	t.claimExactly("the newest of all kinds", all[4])
}
