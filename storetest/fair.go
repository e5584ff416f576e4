package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// Requirement: in a fair queue groups take turns, whatever one of them has enqueued.
var fairCases = []oneCase{
	{"groups take turns, one job each", fairTurns},
	{"one claim takes jobs in the order of turns", fairBatch},
	{"a new group comes after one job of each group", fairNewGroup},
	{"a new group waits for one job of each group with many places", fairNewGroupPlaces},
	{"groups with many places take turns", fairPlaces},
	{"priority and age decide within a group alone", fairPriorities},
	{"a better job takes over the turn of its group", fairBetter},
	{"jobs without a group come last", fairGroupless},
	{"a job that is put back keeps its turn", fairReleased},
	{"a job whose lease ends keeps its turn", fairExpired},
	{"a retry takes a new turn", fairRetried},
	{"a requeued job takes a new turn", fairRequeued},
	{"in a strict queue a started job stays the first of its group", fairStrict},
	{"a queue becomes fair and fifo again with its jobs waiting", fairSwitched},
	{"turns are the same for all stores on a database", fairStores},
	{"a resumed job keeps its place", fairResumed},
	{"a kind that no worker asks for holds up no other group", fairKinds},
	{"with a limit of the queue groups take turns", fairLimited},
	{"many claimers start no group's jobs far ahead of the others'", fairConcurrently},
	{"a job that is alone in its group waits for its turn only, whoever claims", fairJudged},
	{"a job that is alone in its group waits for its turn only, beside groups with many places", fairJudgedFew},
}

func (t *test) fair(c dibs.QueueChange) {
	t.Helper()
	c.Order = new(dibs.Fair)
	t.set(dibs.DefaultQueue, c)
}

// one job of a group each, named by groups.
func ofGroups(names ...string) []dibs.NewJob {
	var jobs []dibs.NewJob
	for _, g := range names {
		jobs = append(jobs, grouped(g))
	}
	return jobs
}

// turns claims and completes jobs, one at a time, and returns their groups in the order of the claims.
func (t *test) turns(n int) []string {
	t.Helper()
	var groups []string
	for range n {
		jobs := t.claim(dibs.ClaimRequest{N: 1})
		if len(jobs) == 0 {
			break
		}
		groups = append(groups, jobs[0].Group)
		t.complete(jobs...)
	}
	return groups
}

func fairTurns(t *test) {
	t.fair(dibs.QueueChange{})
	t.enqueue(slices.Concat(copies(6, grouped("a")), copies(3, grouped("b")), copies(2, grouped("c")))...)
	equal(t, "turns", t.turns(20), []string{"a", "b", "c", "a", "b", "c", "a", "b", "a", "a", "a"})
}

func fairBatch(t *test) {
	t.fair(dibs.QueueChange{GroupLimit: new(10)})
	all := t.enqueue(ofGroups("a", "a", "a", "b", "b", "c")...)
	sameIDs(t, "in turns", ids(t.claim(dibs.ClaimRequest{N: 4})), []int64{all[0], all[3], all[5], all[1]})
	sameIDs(t, "the others", ids(t.claim(dibs.ClaimRequest{N: 4})), []int64{all[4], all[2]})
}

func fairNewGroup(t *test) {
	t.fair(dibs.QueueChange{})
	t.enqueue(slices.Concat(copies(30, grouped("a")), copies(30, grouped("b")))...)
	t.turns(7)
	t.enqueue(ofGroups("new")...)
	got := t.turns(4)
	if at := slices.Index(got, "new"); at < 0 || at > 2 {
		t.Fatalf("the new group came after one job of each of two groups at the earliest: %v", got)
	}
	t.enqueue(ofGroups("new", "new")...)
	got = t.turns(6)
	if n := len(slices.DeleteFunc(slices.Clone(got), func(g string) bool { return g != "new" })); n != 2 {
		t.Fatalf("turns after the second job of the new group: %v", got)
	}
}

func fairNewGroupPlaces(t *test) {
	t.fair(dibs.QueueChange{GroupLimit: new(20)})
	t.enqueue(slices.Concat(copies(50, grouped("a")), copies(50, grouped("b")))...)
	for i := range 5 {
		t.claim(dibs.ClaimRequest{N: 2})
		t.enqueue(ofGroups(fmt.Sprint("new", i))...)
		got := t.claim(dibs.ClaimRequest{N: 3})
		if !slices.ContainsFunc(got, func(j *dibs.RawJob) bool { return j.Group != "a" && j.Group != "b" }) {
			t.Fatalf("more than one job of each of two groups came before a new group's first: %v", got)
		}
	}
}

func fairPlaces(t *test) {
	t.fair(dibs.QueueChange{GroupLimit: new(3)})
	t.enqueue(slices.Concat(copies(9, grouped("a")), copies(3, grouped("b")), copies(3, grouped("c")))...)
	equal(t, "turns", t.turns(20), []string{"a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "a", "a", "a", "a", "a"})
}

func fairPriorities(t *test) {
	t.fair(dibs.QueueChange{})
	with := func(g string, priority int) dibs.NewJob {
		return dibs.NewJob{Kind: "k", Group: g, Priority: new(priority)}
	}
	all := t.enqueue(with("a", 9), with("a", 1), with("b", 300), with("b", 200), with("a", 5))
	for _, i := range []int{1, 3, 4, 2, 0} {
		t.complete(t.claimThis("by turns, then priority", all[i]))
	}
}

// claimThis claims one job and expects this one.
func (t *test) claimThis(what string, want int64) *dibs.RawJob {
	t.Helper()
	jobs := t.claim(dibs.ClaimRequest{N: 1})
	sameIDs(t, what, ids(jobs), []int64{want})
	return jobs[0]
}

func fairBetter(t *test) {
	t.fair(dibs.QueueChange{GroupLimit: new(2)})
	all := t.enqueue(ofGroups("a", "a", "b", "b")...)
	t.sweep() // they have their turns now
	better := grouped("b")
	better.Priority = new(1)
	first := t.enqueue(better)[0]
	var got []int64
	for range 5 {
		jobs := t.claim(dibs.ClaimRequest{N: 1})
		got = append(got, ids(jobs)...)
		t.complete(jobs...)
	}
	sameIDs(t, "the better job comes in the first turn of its group", got, []int64{all[0], first, all[1], all[2], all[3]})
}

func fairGroupless(t *test) {
	t.fair(dibs.QueueChange{})
	all := t.enqueue(dibs.NewJob{Kind: "k", Priority: new(0)}, grouped("a"), grouped("a"), dibs.NewJob{Kind: "k", Priority: new(1)})
	for _, i := range []int{1, 2, 0, 3} {
		t.complete(t.claimThis("jobs of groups come first", all[i]))
	}
}

func fairReleased(t *test) {
	t.fair(dibs.QueueChange{})
	all := t.enqueue(ofGroups("a", "a", "b", "b")...)
	first := t.claimThis("the first", all[0])
	t.finish(first.Lease().Release())
	for _, i := range []int{0, 2, 1, 3} {
		t.complete(t.claimThis("it keeps its turn", all[i]))
	}
}

func fairExpired(t *test) {
	t.fair(dibs.QueueChange{})
	all := t.enqueue(ofGroups("a", "a", "b", "b")...)
	t.expire(t.claimThis("the first", all[0]))
	t.sweep()
	for _, i := range []int{0, 2, 1, 3} {
		t.complete(t.claimThis("it keeps its turn", all[i]))
	}
}

func fairRetried(t *test) {
	t.fair(dibs.QueueChange{})
	all := t.enqueue(ofGroups("a", "a", "b", "b")...)
	first := t.claimThis("the first", all[0])
	t.finish(first.Lease().RetryAfter(0, "e"))
	t.complete(t.claimThis("the other group", all[2]))
	t.complete(t.claimThis("the next of the group", all[1]))
	t.complete(t.claimThis("the other group again", all[3]))
	t.complete(t.claimThis("the retry", all[0]))
}

func fairRequeued(t *test) {
	t.fair(dibs.QueueChange{})
	all := t.enqueue(ofGroups("a", "b", "b", "c", "c")...)
	first := t.claimThis("the first", all[0])
	t.finish(first.Lease().Die("e"))
	t.complete(t.claimThis("the second group", all[1]))
	t.requeue(all[0])
	got := t.turns(4)
	if at := slices.Index(got, "a"); at < 0 || at > 2 {
		t.Fatalf("a requeued job waited for more than one job of each group: %v", got)
	}
}

func fairStrict(t *test) {
	t.fair(dibs.QueueChange{Strict: new(true)})
	all := t.enqueue(ofGroups("a", "a", "b", "b")...)
	first := t.claimThis("the first", all[0])
	t.finish(first.Lease().RetryAfter(time.Hour, "e"))
	t.complete(t.claimThis("the other group", all[2]))
	t.complete(t.claimThis("the other group again", all[3]))
	t.claimExactly("while the first waits for its retry")
	t.waitUntilTime(t.get(all[0]).RunAt)
	t.complete(t.claimThis("its retry", all[0]))
	t.complete(t.claimThis("then the next of its group", all[1]))
}

func fairSwitched(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{GroupLimit: new(2)})
	t.enqueue(slices.Concat(copies(4, grouped("a")), copies(4, grouped("b")))...)
	equal(t, "fifo", t.turns(2), []string{"a", "a"})
	for range 2 {
		t.fair(dibs.QueueChange{})
		got := t.turns(2)
		slices.Sort(got)
		equal(t, "fair", got, []string{"a", "b"})
		t.set(dibs.DefaultQueue, dibs.QueueChange{Order: new(dibs.FIFO)})
	}
	equal(t, "fifo", t.turns(5), []string{"b", "b"})
}

func fairStores(t *test) {
	t.fair(dibs.QueueChange{})
	other := t.Another(t.T)
	t.enqueue(slices.Concat(copies(4, grouped("a")), copies(2, grouped("b")), copies(2, grouped("c")))...)
	var got []string
	for i := range 8 {
		db := t.db
		if i%2 == 1 {
			db = other
		}
		jobs, err := db.Claim(t.ctx, dibs.ClaimRequest{Queue: dibs.DefaultQueue, N: 1, Worker: "w"})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("claim: %v, %v", jobs, err)
		}
		got = append(got, jobs[0].Group)
		if err := db.Finish(t.ctx, outcomes(jobs, completed)); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "turns over two stores", got, []string{"a", "b", "c", "a", "b", "c", "a", "a"})
}

func fairResumed(t *test) {
	t.fair(dibs.QueueChange{})
	all := t.enqueue(ofGroups("a", "a", "b")...)
	r := dibs.ClaimRequest{Queue: dibs.DefaultQueue, N: 1, Worker: "w"}
	sameIDs(t, "claimed", ids(t.claim(r)), all[:1])
	jobs, err := t.db.Resume(t.ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	sameIDs(t, "resumed", ids(jobs), all[:1])
	t.complete(jobs...)
	t.complete(t.claimThis("the other group", all[2]))
	t.complete(t.claimThis("the next of the first group", all[1]))
}

func fairKinds(t *test) {
	t.fair(dibs.QueueChange{GroupLimit: new(4)})
	t.enqueue(dibs.NewJob{Kind: "nobody's", Group: "z"})
	t.enqueue(slices.Concat(copies(6, grouped("a")), copies(3, grouped("b")))...)
	var got []string
	for i := range 9 {
		if i == 4 {
			t.enqueue(copies(2, grouped("c"))...)
		}
		jobs := t.claim(dibs.ClaimRequest{N: 1, Kinds: []string{"k"}})
		got = append(got, jobs[0].Group)
		t.complete(jobs...)
	}
	equal(t, "turns of the others", got[:4], []string{"a", "b", "a", "b"})
	if n := len(slices.DeleteFunc(slices.Clone(got[4:8]), func(g string) bool { return g != "c" })); n > 2 || n == 0 {
		t.Fatalf("a new group's jobs came in turns %v", got)
	}
}

func fairLimited(t *test) {
	t.fair(dibs.QueueChange{Concurrency: new(2), GroupLimit: new(5)})
	t.enqueue(slices.Concat(copies(6, grouped("a")), copies(3, grouped("b")))...)
	var got []string
	for range 5 {
		jobs := t.claim(dibs.ClaimRequest{N: 10})
		if len(jobs) > 2 {
			t.Fatalf("%d jobs run at once", len(jobs))
		}
		for _, j := range jobs {
			got = append(got, j.Group)
		}
		t.complete(jobs...)
	}
	equal(t, "turns", got, []string{"a", "b", "a", "b", "a", "b", "a", "a", "a"})
}

// Groups whose jobs are claimed and finished by many goroutines at once.
func fairConcurrently(t *test) {
	t.goroutines()
	t.fair(dibs.QueueChange{GroupLimit: new(3)})
	const groups, each, claimers = 5, 20, 4
	var batch []dibs.NewJob
	for g := range groups {
		batch = append(batch, copies(each, grouped(fmt.Sprint("g", g)))...)
	}
	t.enqueue(batch...)
	var mu sync.Mutex
	var order []string
	var wait sync.WaitGroup
	for range claimers {
		wait.Go(func() {
			for {
				mu.Lock()
				if len(order) == groups*each {
					mu.Unlock()
					return
				}
				mu.Unlock()
				jobs, err := t.db.Claim(t.ctx, dibs.ClaimRequest{Queue: dibs.DefaultQueue, N: 1, Worker: "w"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, j := range jobs {
					order = append(order, j.Group)
				}
				mu.Unlock()
				if err := t.db.Finish(t.ctx, outcomes(jobs, completed)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	started := map[string]int{}
	for _, g := range order {
		started[g]++
		least := each
		for i := range groups {
			least = min(least, started[fmt.Sprint("g", i)])
		}
		// One more than the others by its turn, and one for each claim that had not reported yet.
		if ahead := started[g] - least; ahead > 1+2*claimers {
			t.Fatalf("group %s is %d jobs ahead of another: %v", g, ahead, order)
		}
	}
}
