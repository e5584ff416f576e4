package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Rates of queues and of groups: how many attempts start, over all workers.
var rateCases = []oneCase{
	{"a queue starts no more than its rate and its burst", rateHolds},
	{"every attempt is a start, however the one before ended", rateCountsAttempts},
	{"what was not used is saved up, as time passes", rateRefills},
	{"a change takes effect at the next claim", rateChanges},
	{"a first rate, set while claims go on, is not overtaken", rateSetAmidClaims},
	{"another store follows at once", rateElsewhere},
	{"a limit holds as well", rateAndLimit},
	{"a rate keeps a serial queue serial", rateSerial},
	{"resume gives nothing, and the next claims count", rateResume},
	{"a group at its rate does not hide the jobs behind it", rateFreeJobs},
	{"a group with several places starts no more than its rate", rateGroupPlaces},
	{"a group's job that is given back starts again only by its rate", rateGroupBack},
	{"a change of a group's rate takes effect at the next claim", rateGroupChanges},
	{"in a strict queue a job keeps its place while its rate holds it up", rateStrict},
	{"in a strict queue no more jobs keep their places than may start at once", rateStrictPlaces},
	{"a group that waits for its rate goes on by itself", rateGroupGoesOn},
	{"a queue with a group that may go on by its rate is due", rateGroupDue},
	{"a claim that a queue's rate cut short is made again", rateWakes},
	{"settings of groups are listed", rateList},
	{"no window has more, whoever claims, fails and crashes", rateRace},
	{"no window of a group has more, whoever claims, fails and crashes", rateGroupRace},
}

// slow lets n jobs start at once, and then none for as long as a test takes.
func slow(n int) *dibs.Rate { return &dibs.Rate{N: 1, Per: 24 * time.Hour, Burst: n - 1} }

func (t *test) setRate(queue, group string, r *dibs.Rate) {
	t.Helper()
	if group == "" {
		t.set(queue, dibs.QueueChange{Rate: r})
		return
	}
	t.must(t.db.ChangeGroup(t.ctx, queue, group, dibs.GroupChange{Rate: r}.Apply))
}

func rateHolds(t *test) {
	q := t.set(dibs.DefaultQueue, dibs.QueueChange{Rate: &dibs.Rate{N: 2, Per: time.Hour, Burst: 4}})
	equal(t, "rate", q.Rate, dibs.Rate{N: 2, Per: time.Hour, Burst: 4})
	all := t.enqueue(copies(10, dibs.NewJob{Kind: "k"})...)
	if s := t.stats(dibs.DefaultQueue); !s.HeldUntil.IsZero() {
		t.Fatalf("held until %v before the first start", s.HeldUntil)
	}
	first := t.claim(dibs.ClaimRequest{N: 2})
	sameIDs(t, "two", ids(first), all[:2])
	t.claimExactly("the burst and one", all[2:5]...)
	t.complete(first...)
	t.claimExactly("the rate is reached")
	held := t.stats(dibs.DefaultQueue).HeldUntil
	if wait := held.Sub(first[0].ClaimedAt); wait < 25*time.Minute || wait > 35*time.Minute {
		t.Fatalf("held for %v after the first start, want half an hour", wait)
	}
	if got := t.get(all[5]); !got.HeldUntil.Equal(held) || got.State != dibs.Waiting {
		t.Fatalf("a waiting job is %s, held until %v, the queue until %v", got.State, got.HeldUntil, held)
	}
	equal(t, "held", []bool{t.get(all[0]).HeldUntil.IsZero(), t.get(all[3]).HeldUntil.IsZero()}, []bool{true, true})
}

func rateCountsAttempts(t *test) { t.everyAttemptCounts("") }

func rateGroupBack(t *test) { t.everyAttemptCounts("g") }

// everyAttemptCounts ends attempts in all ways, under the rate of the queue or of a group.
func (t *test) everyAttemptCounts(group string) {
	n := len(endings(dibs.Lease{}))
	t.setRate(dibs.DefaultQueue, group, slow(n+1))
	t.enqueue(copies(20, grouped(group))...)
	for i := range n {
		j := t.claimOne(dibs.ClaimRequest{})
		t.finish(endings(j.Lease())[i])
	}
	t.expire(t.claimOne(dibs.ClaimRequest{}))
	t.sweep()
	equal(t, "claimed at the end", len(t.claim(dibs.ClaimRequest{N: 5})), 0)
	equal(t, "and later", len(t.claim(dibs.ClaimRequest{N: 5})), 0)
}

func rateRefills(t *test) {
	t.setRate(dibs.DefaultQueue, "", &dibs.Rate{N: 1, Per: time.Second})
	all := t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	last := time.Time{}
	for i := range all {
		j := t.claimSoon(dibs.ClaimRequest{N: 4}, 1)[0]
		equal(t, "job", j.ID, all[i])
		if gap := j.ClaimedAt.Sub(last); gap < time.Second {
			t.Fatalf("job %d started %v after the one before", i, gap)
		}
		last = j.ClaimedAt
	}
}

func rateChanges(t *test) {
	all := t.enqueue(copies(20, dibs.NewJob{Kind: "k"})...)
	t.setRate(dibs.DefaultQueue, "", slow(2))
	t.claimExactly("two", all[:2]...)
	t.claimExactly("none")
	t.setRate(dibs.DefaultQueue, "", &dibs.Rate{N: 1_000_000, Per: time.Second, Burst: 10})
	t.claimSoon(dibs.ClaimRequest{N: 1}, 1)
	t.setRate(dibs.DefaultQueue, "", slow(1))
	t.atMostOne(func() {})
	t.setRate(dibs.DefaultQueue, "", &dibs.Rate{})
	equal(t, "held until", t.stats(dibs.DefaultQueue).HeldUntil.IsZero(), true)
	equal(t, "without a rate", len(t.claim(dibs.ClaimRequest{N: 5})), 5)
	t.setRate(dibs.DefaultQueue, "", slow(1))
	t.atMostOne(func() { t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)}) })
}

// atMostOne makes several claims, and expects at most one job from all of them together; none
// if the starts under the earlier rate hold up the first.
func (t *test) atMostOne(between func()) {
	t.Helper()
	got := len(t.claim(dibs.ClaimRequest{N: 6})) + len(t.claim(dibs.ClaimRequest{N: 6}))
	between()
	if got += len(t.claim(dibs.ClaimRequest{N: 6})); got > 1 {
		t.Fatalf("claimed %d jobs, want at most 1", got)
	}
}

func rateElsewhere(t *test) {
	other := t.Another(t)
	all := t.enqueue(copies(10, dibs.NewJob{Kind: "k"})...)
	sameIDs(t, "two", ids(t.claimOn(other, dibs.ClaimRequest{N: 2})), all[:2])
	t.setRate(dibs.DefaultQueue, "", slow(3))
	sameIDs(t, "two more", ids(t.claimOn(other, dibs.ClaimRequest{N: 2})), all[2:4])
	t.claimExactly("the last", all[4])
	sameIDs(t, "none", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), nil)
	t.setRate(dibs.DefaultQueue, "", &dibs.Rate{})
	sameIDs(t, "removed", ids(t.claimOn(other, dibs.ClaimRequest{N: 5})), all[5:])
}

func rateAndLimit(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Rate: slow(5), Concurrency: new(2)})
	all := t.enqueue(copies(10, dibs.NewJob{Kind: "k"})...)
	jobs := t.claimExactly("the limit", all[:2]...)
	t.complete(jobs...)
	jobs = t.claimExactly("the limit again", all[2:4]...)
	t.complete(jobs...)
	jobs = t.claimExactly("what the rate leaves", all[4])
	t.complete(jobs...)
	t.claimExactly("none")
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(0)})
	t.claimExactly("none without the limit")
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(3), Rate: &dibs.Rate{}})
	t.claimExactly("the limit alone", all[5:8]...)
}

func rateSerial(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Concurrency: new(1)})
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	j := t.claimExactly("one", all[0])
	t.setRate(dibs.DefaultQueue, "", slow(2))
	t.claimExactly("while it runs")
	t.complete(j...)
	t.claimExactly("the next", all[1])
	t.claimExactly("while that runs")
}

func rateResume(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	t.setRate(dibs.DefaultQueue, "", slow(2))
	jobs := t.claimOn(t.db, dibs.ClaimRequest{N: 1, Worker: "w"})
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "w"})), nil)
	t.expire(jobs...)
	t.sweep()
	again := t.claimSoon(dibs.ClaimRequest{N: 5}, 1)
	equal(t, "job and attempt", []any{again[0].ID, again[0].Attempt}, []any{all[0], 2})
	t.claimExactly("none")
}

func rateFreeJobs(t *test) {
	for _, g := range []string{"g", "h"} {
		t.setRate(dibs.DefaultQueue, g, slow(1))
	}
	jobs := copies(200, grouped("g"))
	all := t.enqueue(append(jobs, append(copies(3, grouped("f")), copies(5, dibs.NewJob{Kind: "k"})...)...)...)
	first := t.claim(dibs.ClaimRequest{N: 1})
	sameIDs(t, "the group's first", ids(first), all[:1])
	t.complete(first...)
	t.claimExactly("the free ones", append([]int64{all[200]}, all[203:]...)...)
	held := t.get(all[1])
	if held.State != dibs.Blocked || held.HeldUntil.Sub(first[0].ClaimedAt) < 23*time.Hour {
		t.Fatalf("the group's next job is %s, held until %v", held.State, held.HeldUntil)
	}
	s := t.stats(dibs.DefaultQueue)
	equal(t, "groups that are held", s.HeldGroups, int64(1))
	equal(t, "the queue is not", s.HeldUntil.IsZero(), true)
}

func rateGroupPlaces(t *test) {
	t.must(t.db.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", dibs.GroupChange{Limit: new(3), Rate: slow(5)}.Apply))
	all := t.enqueue(copies(10, grouped("g"))...)
	jobs := t.claimExactly("the places", all[:3]...)
	t.complete(jobs[0])
	jobs = append(jobs[1:], t.claimExactly("one more", all[3])...)
	t.complete(jobs...)
	jobs = t.claimExactly("what the rate leaves", all[4])
	t.complete(jobs...)
	t.claimExactly("none")
	t.must(t.db.ChangeGroup(t.ctx, dibs.DefaultQueue, "g", dibs.GroupChange{Limit: new(0)}.Apply))
	t.claimExactly("none with another limit")
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{})
	t.claimExactly("one at a time", all[5])
}

func rateGroupChanges(t *test) {
	all := t.enqueue(copies(20, grouped("g"))...)
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(2)})
	t.setRate(dibs.DefaultQueue, "g", slow(2))
	t.complete(t.claimExactly("two", all[:2]...)...)
	t.claimExactly("none")
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{N: 1_000_000, Per: time.Second, Burst: 10})
	t.complete(t.claimSoon(dibs.ClaimRequest{N: 2}, 2)...)
	t.enqueue(grouped("g"))
	t.setRate(dibs.DefaultQueue, "g", slow(1)) // takes away places that were given before
	t.atMostOne(func() {})
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{})
	if got := len(t.claim(dibs.ClaimRequest{N: 5})); got < 1 {
		t.Fatal("without a rate none could be claimed")
	}
}

func rateStrict(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true)})
	t.setRate(dibs.DefaultQueue, "g", slow(2))
	all := t.enqueue(copies(3, grouped("g"))...)
	for range 2 {
		j := t.claimExactly("the first", all[0])
		t.finish(j[0].Lease().RetryAfter(0, "e"))
	}
	t.claimExactly("the rate is reached")
	t.claimExactly("and stays so")
	t.inState(dibs.Waiting, all[0])
	t.inState(dibs.Blocked, all[1:]...)
	if t.get(all[0]).HeldUntil.IsZero() {
		t.Fatal("the first job is not said to be held up")
	}
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{})
	j := t.claimExactly("the first again", all[0])
	t.complete(j...)
	t.claimExactly("the second", all[1])
}

func rateStrictPlaces(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Strict: new(true), GroupLimit: new(3)})
	all := t.enqueue(copies(3, grouped("g"))...)
	jobs := t.claimExactly("all", all...)
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{N: 1, Per: time.Second})
	for _, j := range jobs {
		t.finish(j.Lease().RetryAfter(0, "e"))
	}
	last := time.Time{}
	for range jobs {
		j := t.claimSoon(dibs.ClaimRequest{N: 4}, 1)[0]
		if gap := j.ClaimedAt.Sub(last); gap < time.Second {
			t.Fatalf("job %d started %v after the one before", j.ID, gap)
		}
		last = j.ClaimedAt
	}
}

func rateGroupGoesOn(t *test) {
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{N: 1, Per: time.Second})
	t.oneASecond()
}

// oneASecond expects the jobs of a group to start a second apart, in their order.
func (t *test) oneASecond() {
	t.Helper()
	all := t.enqueue(copies(3, grouped("g"))...)
	last := time.Time{}
	for i := range all {
		j := t.claimSoon(dibs.ClaimRequest{N: 4}, 1)[0]
		equal(t, "job", j.ID, all[i])
		if gap := j.ClaimedAt.Sub(last); gap < time.Second {
			t.Fatalf("job %d started %v after the one before", i, gap)
		}
		last = j.ClaimedAt
		t.complete(j)
	}
}

// rateGroupDue makes no claims, so only Due can tell a worker of several queues that a group's rate lets a job start.
func rateGroupDue(t *test) {
	per := time.Second
	if t.Pass != nil { // no machine is so slow that it spends an hour on the claims
		per = time.Hour
	}
	t.setRate(dibs.DefaultQueue, "g", &dibs.Rate{N: 1, Per: per})
	t.enqueue(copies(2, grouped("g"))...)
	t.complete(t.claimOne(dibs.ClaimRequest{}))
	t.claimExactly("the rate is reached")
	groups, err := t.db.Groups(t.ctx, dibs.DefaultQueue)
	t.must(err)
	t.waitUntilTime(groups[0].HeldUntil)
	due, err := t.Another(t).Due(t.ctx, []string{dibs.DefaultQueue}, nil)
	t.must(err)
	equal(t, "due", due, []string{dibs.DefaultQueue})
}

func rateList(t *test) {
	r := dibs.Rate{N: 5, Per: time.Minute, Burst: 2}
	t.setRate("q", "b", &r)
	t.must(t.db.ChangeGroup(t.ctx, "q", "a", dibs.GroupChange{Limit: new(3)}.Apply))
	t.must(t.db.ChangeGroup(t.ctx, "q", "b", dibs.GroupChange{Limit: new(2)}.Apply))
	t.setRate("q", "c", slow(1))
	got, err := t.db.Groups(t.ctx, "q")
	t.must(err)
	equal(t, "groups", got, []dibs.Group{{Name: "a", Limit: 3}, {Name: "b", Limit: 2, Rate: r}, {Name: "c", Rate: *slow(1)}})
	t.enqueue(copies(2, dibs.NewJob{Queue: "q", Kind: "k", Group: "c"})...)
	t.complete(t.claimOne(dibs.ClaimRequest{Queue: "q"}))
	equal(t, "the next", len(t.claim(dibs.ClaimRequest{Queue: "q", N: 1})), 0)
	t.setRate("q", "b", &dibs.Rate{})
	t.must(t.db.ChangeGroup(t.ctx, "q", "a", dibs.GroupChange{Limit: new(0)}.Apply))
	got, err = t.db.Groups(t.ctx, "q")
	t.must(err)
	if len(got) == 2 && got[1].HeldUntil.IsZero() {
		t.Fatalf("a group at its rate is %+v", got[1])
	}
	for i := range got {
		got[i].HeldUntil = time.Time{}
	}
	equal(t, "groups later", got, []dibs.Group{{Name: "b", Limit: 2}, {Name: "c", Rate: *slow(1)}})
	got, err = t.db.Groups(t.ctx, "unknown")
	t.must(err)
	equal(t, "groups of an unknown queue", len(got), 0)
	for field, r := range map[string]dibs.Rate{
		"rate.n": {N: -1}, "rate.per": {N: 1}, "rate.burst": {N: 1_000_000, Per: time.Second, Burst: 1_000_000_001},
	} {
		_, err := t.db.ChangeQueue(t.ctx, "q", dibs.QueueChange{Rate: &r}.Apply)
		invalid(t, err, field)
		invalid(t, t.db.ChangeGroup(t.ctx, "q", "b", dibs.GroupChange{Rate: &r}.Apply), field)
	}
	for _, r := range []dibs.Rate{{Per: time.Second}, {N: 1_000_001, Per: time.Second}, {N: 1 << 31, Per: 24 * time.Hour}} {
		_, err := t.db.ChangeQueue(t.ctx, "q", dibs.QueueChange{Rate: &r}.Apply)
		invalid(t, err, "rate.n")
	}
	for _, r := range []dibs.Rate{{N: 1, Per: 32 * 24 * time.Hour}, {N: 1, Per: time.Millisecond}} {
		_, err := t.db.ChangeQueue(t.ctx, "q", dibs.QueueChange{Rate: &r}.Apply)
		invalid(t, err, "rate.per")
	}
	_, err = t.db.ChangeQueue(t.ctx, "q", dibs.QueueChange{Rate: &dibs.Rate{N: 1, Per: 24 * time.Hour, Burst: 4000}}.Apply)
	invalid(t, err, "rate.burst")
	_, err = t.db.Groups(t.ctx, "")
	invalid(t, err, "queue")
}
