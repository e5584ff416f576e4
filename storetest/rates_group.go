package storetest

import (
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

// A queue's rate for groups: each group that has none of its own has it.
var groupRateCases = []oneCase{
	{"each group of a queue starts no more than the queue's rate for groups", groupRateEach},
	{"a group's own rate takes the place of the queue's", groupRateOwn},
	{"every attempt of each group is a start", groupRateCountsAttempts},
	{"a change takes effect at the next claim, and one that is taken away holds nothing up", groupRateChanges},
	{"another store follows at once", groupRateElsewhere},
	{"a group with several places starts no more than its queue's rate", groupRatePlaces},
	{"in a strict queue a job keeps its place while its rate holds it up", groupRateStrict},
	{"a group goes on by itself", groupRateGoesOn},
	{"jobs without a group are not held up, and resume gives nothing", groupRateOthers},
	{"it is a setting, and groups that it holds up are listed", groupRateList},
	{"no window of a group has more, whoever claims, fails and crashes", groupRateRace},
}

// setGroupRate gives each group of the default queue a rate.
func (t *test) setGroupRate(r *dibs.Rate) {
	t.Helper()
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupRate: r})
}

func groupRateEach(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupRate: slow(3), GroupLimit: new(10)})
	var all []int64
	for _, g := range []string{"g", "h"} {
		all = append(all, t.enqueue(copies(5, grouped(g))...)...)
	}
	jobs := t.claimExactly("three of each", append(all[:3:3], all[5:8]...)...)
	t.complete(jobs...)
	t.claimExactly("both are at their rate")
	later := t.enqueue(copies(5, grouped("new"))...)
	t.complete(t.claimExactly("three of a new group", later[:3]...)...)
	t.claimExactly("and no more")
	equal(t, "groups that are held", t.stats(dibs.DefaultQueue).HeldGroups, int64(3))
	held := t.get(all[3])
	if held.State != dibs.Blocked || held.HeldUntil.Sub(jobs[0].ClaimedAt) < 23*time.Hour {
		t.Fatalf("the group's next job is %s, held until %v", held.State, held.HeldUntil)
	}
}

func groupRateOwn(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupRate: slow(2), GroupLimit: new(10)})
	t.setRate(dibs.DefaultQueue, "more", slow(4))
	t.setRate(dibs.DefaultQueue, "less", slow(1))
	more, less := t.enqueue(copies(9, grouped("more"))...), t.enqueue(copies(9, grouped("less"))...)
	t.complete(t.claimExactly("by their own rates", append(more[:4:4], less[0])...)...)
	t.claimExactly("no more by these")
	t.setRate(dibs.DefaultQueue, "more", &dibs.Rate{})
	t.claimExactly("what was started by its own rate counts towards the queue's")
	t.setRate(dibs.DefaultQueue, "less", slow(9))
	if n := len(t.claim(dibs.ClaimRequest{N: 20})); n < 7 || n > 8 {
		t.Fatalf("claimed %d jobs of a group whose own rate was raised from 1 to 9, want 7 or 8", n)
	}
}

func groupRateCountsAttempts(t *test) {
	n := len(endings(dibs.Lease{}))
	t.setGroupRate(slow(n + 1))
	for _, g := range []string{"g", "h"} {
		t.enqueue(copies(20, grouped(g))...)
		for i := range n {
			j := t.claimOne(dibs.ClaimRequest{})
			equal(t, "group", j.Group, g)
			t.finish(endings(j.Lease())[i])
		}
		t.expire(t.claimOne(dibs.ClaimRequest{}))
		t.sweep()
		equal(t, "claimed at the end", len(t.claim(dibs.ClaimRequest{N: 5})), 0)
		equal(t, "and later", len(t.claim(dibs.ClaimRequest{N: 5})), 0)
	}
}

func groupRateChanges(t *test) {
	all := t.enqueue(copies(30, grouped("g"))...)
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(2)})
	t.complete(t.claim(dibs.ClaimRequest{N: 1})...)
	t.setGroupRate(slow(2)) // jobs already hold places that were given without the rate
	t.complete(t.claimExactly("two", all[1:3]...)...)
	t.claimExactly("none")
	t.setGroupRate(&dibs.Rate{N: 1_000_000, Per: time.Second, Burst: 10})
	t.complete(t.claimSoon(dibs.ClaimRequest{N: 2}, 2)...)
	t.setGroupRate(slow(1)) // takes away places that were given before
	t.atMostOne(func() { t.set(dibs.DefaultQueue, dibs.QueueChange{Lease: new(20 * time.Second)}) })
	t.setGroupRate(&dibs.Rate{})
	if got := len(t.claim(dibs.ClaimRequest{N: 5})); got < 1 {
		t.Fatal("without a rate none could be claimed")
	}
	equal(t, "groups held", t.stats(dibs.DefaultQueue).HeldGroups, int64(0))
	t.setGroupRate(slow(1))
	t.enqueue(grouped("g"))
	t.atMostOne(func() {})
}

func groupRateElsewhere(t *test) {
	other := t.Another(t)
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(20)})
	all := t.enqueue(copies(10, grouped("g"))...)
	sameIDs(t, "two", ids(t.claimOn(other, dibs.ClaimRequest{N: 2})), all[:2])
	t.setGroupRate(slow(3))
	sameIDs(t, "two more", ids(t.claimOn(other, dibs.ClaimRequest{N: 2})), all[2:4])
	t.claimExactly("the last", all[4])
	sameIDs(t, "none", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), nil)
	t.setGroupRate(&dibs.Rate{})
	sameIDs(t, "removed", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), all[5:])
}

func groupRatePlaces(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(3), GroupRate: slow(5)})
	all := t.enqueue(copies(10, grouped("g"))...)
	jobs := t.claimExactly("the places", all[:3]...)
	t.complete(jobs[0])
	jobs = append(jobs[1:], t.claimExactly("one more", all[3])...)
	t.complete(jobs...)
	t.complete(t.claimExactly("what the rate leaves", all[4])...)
	t.claimExactly("none")
	t.must(t.db.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", dibs.GroupChange{Limit: new(7)}.Apply))
	t.claimExactly("none with a limit of its own")
}

func groupRateStrict(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true), GroupRate: slow(2)})
	all := t.enqueue(copies(3, grouped("g"))...)
	for range 2 {
		j := t.claimExactly("the first", all[0])
		t.finish(j[0].Lease().RetryAfter(0, "e"))
	}
	t.claimExactly("the rate is reached")
	t.inState(dibs.Waiting, all[0])
	t.inState(dibs.Blocked, all[1:]...)
	t.setGroupRate(&dibs.Rate{})
	t.complete(t.claimExactly("the first again", all[0])...)
	t.claimExactly("the second", all[1])
}

func groupRateGoesOn(t *test) {
	t.setGroupRate(&dibs.Rate{N: 1, Per: time.Second})
	t.oneASecond()
}

func groupRateOthers(t *test) {
	t.setGroupRate(slow(1))
	all := t.enqueue(append(copies(3, grouped("g")), copies(5, dibs.NewJob{Kind: "k"})...)...)
	t.claimExactly("one of the group and the free ones", append([]int64{all[0]}, all[3:]...)...)
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "w"})), nil)
}

func groupRateList(t *test) {
	r := dibs.Rate{N: 5, Per: time.Minute, Burst: 2}
	q := t.set("q", dibs.QueueChange{GroupRate: &r})
	equal(t, "the setting", q.GroupRate, r)
	list, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "as listed", list[0].GroupRate, r)
	q, err = t.db.ChangeQueue(t.ctx, "q", func(q *dibs.Queue) error { q.GroupRate = *slow(1); return nil })
	t.must(err)
	equal(t, "changed", q.GroupRate, *slow(1))
	t.must(t.db.ChangeGroup(t.ctx, "q", "b", dibs.GroupChange{Limit: new(2)}.Apply))
	for _, g := range []string{"a", "b", "idle"} {
		t.enqueue(copies(map[string]int{"a": 2, "b": 2, "idle": 1}[g], dibs.NewJob{Queue: "q", Kind: "k", Group: g})...)
	}
	t.complete(t.claim(dibs.ClaimRequest{Queue: "q", N: 9})...)
	equal(t, "the rest", len(t.claim(dibs.ClaimRequest{Queue: "q", N: 9})), 0)
	groups, err := t.db.Groups(t.ctx, "q")
	t.must(err)
	for i, g := range groups {
		if g.HeldUntil.IsZero() {
			t.Fatalf("group %q is not said to be held up", g.Name)
		}
		groups[i].HeldUntil = time.Time{}
	}
	equal(t, "held groups", groups, []dibs.Group{{Name: "a"}, {Name: "b", Limit: 2}})
	for field, r := range map[string]dibs.Rate{"group_rate.n": {N: -1}, "group_rate.per": {N: 1}, "group_rate.burst": {N: 1, Per: time.Second, Burst: -1}} {
		_, err := t.db.ChangeQueue(t.ctx, "q", dibs.QueueChange{GroupRate: &r}.Apply)
		invalid(t, err, field)
	}
}

func groupRateRace(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Lease: new(time.Second), MaxAttempts: new(1000), GroupLimit: new(4), GroupRate: &raceRate})
	for i := range 3 {
		t.enqueue(copies(40, grouped(fmt.Sprint("g", i)))...)
	}
	starts := t.startsUntil(200)
	for i := range 3 {
		t.noWindowHasMore(starts[fmt.Sprint("g", i)])
	}
}
