package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var claimCases = []oneCase{
	{"none due is not an error", noneDue},
	{"an unknown queue is an empty one", unknownQueue},
	{"a claim marks the job with token, worker, attempt and lease", claimMarks},
	{"all jobs of one call share a token that no other call has", oneTokenPerCall},
	{"the lease is the queue's or the request's", leaseLength},
	{"it takes at most n, and fewer when there are fewer", atMostN},
	{"jobs come by priority, then run_at, then id", claimOrder},
	{"the first and the last priority are the first and the last", extremePriorities},
	{"a better job that comes later is next", betterJobNext},
	{"a better job from another store is soon next", betterJobElsewhere},
	{"jobs of the future are passed over until their time", futurePassedOver},
	{"lifo takes the newest of the best priority", lifo},
	{"lifo takes the newest of each of many priorities", lifoOfMany},
	{"the order can be changed in the middle", orderChanged},
	{"only the kinds asked for are taken", onlyKinds},
	{"a kind behind many others is found", kindBehindOthers},
	{"stores take turns without a collision", storesTakeTurns},
	{"a cancelled call loses no job", cancelledClaim},
	{"a job given back behind younger ones starts again", givenBackBehind},
	{"no job is claimed ahead where there are limits", claimedAhead},
}

func noneDue(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k", Delay: time.Hour})
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 5})), nil)
}

func unknownQueue(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{Queue: "nobody's", N: 5})), nil)
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "queues", len(queues), 1)
}

// Requirement 1: a claim sets mark, server, attempts+1, start and timeout on the
// database's clock.
func claimMarks(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", Payload: []int{1}, Group: "g", UniqueKey: "u", MaxAttempts: 3})[0]
	waiting := t.get(id)
	j := t.claimOne(dibs.ClaimRequest{Worker: "server-1", Lease: time.Minute})
	if j.Token.IsZero() || j.ClaimedAt.Before(j.CreatedAt) {
		t.Fatalf("token %v, claimed_at %v", j.Token, j.ClaimedAt)
	}
	near(t, "lease", j.LeaseUntil.Sub(j.ClaimedAt), time.Minute)
	waiting.State, waiting.Attempt, waiting.Worker = dibs.Running, 1, "server-1"
	waiting.Token, waiting.ClaimedAt, waiting.LeaseUntil = j.Token, j.ClaimedAt, j.LeaseUntil
	sameJob(t, j, waiting)
	sameJob(t, t.get(id), j)

	t.finish(j.Lease().RetryAfter(0, "x"))
	reclaimed := t.claimOne(dibs.ClaimRequest{Worker: "server-2"})
	equal(t, "attempt and worker", []any{reclaimed.Attempt, reclaimed.Worker}, []any{2, "server-2"})
	sameJob(t, t.get(id), reclaimed)
}

// Requirement 1: each claim call mints one GUID; the rows it got are exactly those that carry it.
func oneTokenPerCall(t *test) {
	t.enqueue(copies(30, dibs.NewJob{Kind: "k"})...)
	holders := map[dibs.Token][]int64{}
	for range 3 {
		jobs := t.claim(dibs.ClaimRequest{N: 10})
		equal(t, "claimed jobs", len(jobs), 10)
		token := jobs[0].Token
		if token.IsZero() || holders[token] != nil {
			t.Fatalf("token %v is missing or used twice", token)
		}
		for _, j := range jobs {
			equal(t, "token", j.Token, token)
			holders[token] = append(holders[token], j.ID)
		}
	}
	for _, j := range t.list(admin.Filter{State: dibs.Running}) {
		if !slices.Contains(holders[j.Token], j.ID) {
			t.Fatalf("job %d carries token %v, which its claim did not give", j.ID, j.Token)
		}
	}
}

func leaseLength(t *test) {
	t.set("q", dibs.QueueChange{Lease: new(90 * time.Second)})
	t.enqueue(dibs.NewJob{Kind: "k"}, dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "q", Kind: "k"})
	for _, c := range []struct {
		request dibs.ClaimRequest
		want    time.Duration
	}{
		{dibs.ClaimRequest{}, 10 * time.Second},
		{dibs.ClaimRequest{Queue: "q"}, 90 * time.Second},
		{dibs.ClaimRequest{Queue: "q", Lease: dibs.MaxLease}, dibs.MaxLease},
	} {
		c.request.Worker, c.request.N = "w", 1
		jobs, err := t.db.Claim(t.ctx, c.request)
		t.must(err)
		equal(t, "claimed jobs", len(jobs), 1)
		near(t, "lease", jobs[0].LeaseUntil.Sub(jobs[0].ClaimedAt), c.want)
	}
}

// Requirements 1 and 3: many agents, each asks for its own N.
func atMostN(t *test) {
	all := t.enqueue(copies(10, dibs.NewJob{Kind: "k"})...)
	sameIDs(t, "first 3", ids(t.claim(dibs.ClaimRequest{N: 3})), all[:3])
	sameIDs(t, "next 1", ids(t.claim(dibs.ClaimRequest{N: 1})), all[3:4])
	sameIDs(t, "the rest", ids(t.claim(dibs.ClaimRequest{N: 100})), all[4:])
	sameIDs(t, "no more", ids(t.claim(dibs.ClaimRequest{N: 100})), nil)
}

// Requirements 1, 2 and 3: order by priority, then available date, ties broken by id.
func claimOrder(t *test) {
	r := t.random()
	soon := time.Now()
	var all []int64
	for range 8 {
		var batch []dibs.NewJob
		for range 1 + r.IntN(40) {
			j := dibs.NewJob{Kind: "k", Priority: new(r.IntN(4))}
			if r.IntN(2) == 0 { // some jobs share a run_at, so that the id decides
				j.RunAt = soon.Add(time.Duration(r.IntN(5)) * 50 * time.Millisecond)
			}
			batch = append(batch, j)
		}
		all = append(all, t.enqueue(batch...)...)
	}
	want := make([]*dibs.RawJob, len(all))
	last := soon
	for i, id := range all {
		want[i] = t.get(id)
		last = maxTime(last, want[i].RunAt)
	}
	slices.SortFunc(want, func(a, b *dibs.RawJob) int {
		return cmp.Or(a.Priority-b.Priority, a.RunAt.Compare(b.RunAt), int(a.ID-b.ID))
	})
	t.waitUntilTime(last)
	var got []int64
	for len(got) < len(all) {
		jobs := t.claim(dibs.ClaimRequest{N: 1 + r.IntN(20)})
		if len(jobs) == 0 {
			t.Fatalf("nothing was claimed although %d jobs are due", len(all)-len(got))
		}
		got = append(got, ids(jobs)...)
	}
	sameIDs(t, "order", got, ids(want))
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func extremePriorities(t *test) {
	all := t.enqueue(
		dibs.NewJob{Kind: "k", Priority: new(dibs.MaxPriority)},
		dibs.NewJob{Kind: "k"},
		dibs.NewJob{Kind: "k", Priority: new(0)},
	)
	slices.Reverse(all)
	sameIDs(t, "order", ids(t.claim(dibs.ClaimRequest{N: 3})), all)
}

func betterJobNext(t *test) {
	low := t.enqueue(copies(10, dibs.NewJob{Kind: "k", Priority: new(9)})...)
	sameIDs(t, "first", ids(t.claim(dibs.ClaimRequest{N: 4})), low[:4])
	better := t.enqueue(dibs.NewJob{Kind: "k", Priority: new(3)}, dibs.NewJob{Kind: "k", Priority: new(12)}, dibs.NewJob{Kind: "k", Priority: new(0)})
	want := []int64{better[2], better[0], low[4]}
	sameIDs(t, "next", ids(t.claim(dibs.ClaimRequest{N: 3})), want)
}

// A store may remember the place of the next job, but only for a short time.
func betterJobElsewhere(t *test) {
	other := t.Another(t)
	for range 3 {
		t.enqueue(copies(400, dibs.NewJob{Kind: "k", Priority: new(9)})...)
	}
	equal(t, "first", len(t.claim(dibs.ClaimRequest{N: 10})), 10)
	better := t.enqueueOn(other, dibs.NewJob{Kind: "k", Priority: new(3)})[0]
	t.waitUntil("the better job is claimed", func() bool {
		j := t.claimOne(dibs.ClaimRequest{})
		if late := j.ClaimedAt.Sub(t.get(better).RunAt); late > promptly {
			t.Fatalf("worse jobs are still claimed %v after a better one came", late)
		}
		return j.ID == better
	})
}

// A job that is not due neither runs nor holds up the jobs behind it.
func futurePassedOver(t *test) {
	t.inRealTime()
	t.enqueue(dibs.NewJob{Kind: "k", Priority: new(0), Delay: time.Hour})
	dueNow := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	sameIDs(t, "due", ids(t.claim(dibs.ClaimRequest{N: 1})), dueNow[:1])
	soon := t.enqueue(dibs.NewJob{Kind: "k", Priority: new(0), Delay: 200 * time.Millisecond})
	t.waitUntilTime(t.get(soon[0]).RunAt)
	sameIDs(t, "due now", ids(t.claim(dibs.ClaimRequest{N: 10})), append(soon, dueNow[1:]...))
}

// Requirement 5: heap, FIFO, LIFO and pending queues.
func lifo(t *test) {
	t.set("q", dibs.QueueChange{Order: new(dibs.LIFO)})
	j := dibs.NewJob{Queue: "q", Kind: "k"}
	first := t.enqueue(copies(3, j)...)
	urgent := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k", Priority: new(1)})
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k", Delay: time.Hour})
	last := t.enqueue(copies(2, j)...)
	want := []int64{urgent[0], last[1], last[0], first[2]}
	sameIDs(t, "order", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 4})), want)
	newest := t.enqueue(j)
	sameIDs(t, "order", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 9})), []int64{newest[0], first[1], first[0]})
}

func lifoOfMany(t *test) {
	const priorities = 230
	t.set("q", dibs.QueueChange{Order: new(dibs.LIFO)})
	var jobs []dibs.NewJob
	for p := range priorities {
		jobs = append(jobs, dibs.NewJob{Queue: "q", Kind: "k", Priority: new(p)})
	}
	older, newer := t.enqueue(jobs...), t.enqueue(jobs...)
	var want []int64
	for p := range priorities {
		want = append(want, newer[p], older[p])
	}
	got := ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 2*priorities - 60}))
	for range 60 {
		got = append(got, ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 1}))...)
	}
	sameIDs(t, "order", got, want)
}

func orderChanged(t *test) {
	all := t.enqueue(copies(6, dibs.NewJob{Queue: "q", Kind: "k"})...)
	one := dibs.ClaimRequest{Queue: "q", N: 1}
	sameIDs(t, "fifo", ids(t.claim(one)), all[:1])
	t.set("q", dibs.QueueChange{Order: new(dibs.LIFO)})
	sameIDs(t, "lifo", ids(t.claim(one)), all[5:])
	t.set("q", dibs.QueueChange{Order: new(dibs.FIFO)})
	sameIDs(t, "fifo again", ids(t.claim(one)), all[1:2])
}

func onlyKinds(t *test) {
	var batch []dibs.NewJob
	for i := range 12 {
		batch = append(batch, dibs.NewJob{Kind: fmt.Sprintf("k%d", i%4)})
	}
	all := t.enqueue(batch...)
	sameIDs(t, "kind k1", ids(t.claim(dibs.ClaimRequest{N: 2, Kinds: []string{"k1"}})), []int64{all[1], all[5]})
	sameIDs(t, "kinds k3, k0", ids(t.claim(dibs.ClaimRequest{N: 3, Kinds: []string{"k3", "k0", "k3"}})), []int64{all[0], all[3], all[4]})
	sameIDs(t, "unknown kind", ids(t.claim(dibs.ClaimRequest{N: 3, Kinds: []string{"k9"}})), nil)
	sameIDs(t, "all kinds", ids(t.claim(dibs.ClaimRequest{N: 2})), []int64{all[2], all[6]})
}

func kindBehindOthers(t *test) {
	t.enqueue(copies(1500, dibs.NewJob{Kind: "many"})...)
	rare := t.enqueue(dibs.NewJob{Kind: "rare"})
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 5, Kinds: []string{"rare"}})), rare)
}

// Requirement 4: any number of processes.
func storesTakeTurns(t *test) {
	stores := []admin.Database{t.db, t.Another(t), t.Another(t)}
	all := t.enqueue(copies(90, dibs.NewJob{Kind: "k"})...)
	var got []int64
	for i := range 18 {
		jobs := t.claimOn(stores[i%3], dibs.ClaimRequest{N: 5, Worker: fmt.Sprintf("w%d", i%3)})
		got = append(got, ids(jobs)...)
	}
	sameIDs(t, "claimed", got, all)
}

// A claim that is cancelled may have claimed jobs without returning them. They can be claimed
// again when their leases end.
func cancelledClaim(t *test) {
	const n = 60
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	r := t.random()
	for range 30 {
		ctx, cancel := context.WithTimeout(t.ctx, time.Duration(r.IntN(2000))*time.Microsecond)
		jobs, err := t.db.Claim(ctx, dibs.ClaimRequest{N: 1, Worker: "w", Lease: dibs.MinLease})
		cancel()
		if err != nil {
			continue
		}
		for _, j := range jobs {
			if err := t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}); err != nil && !errors.Is(err, dibs.ErrLeaseLost) {
				t.Fatal(err)
			}
		}
	}
	t.waitUntil("all jobs are completed", func() bool {
		jobs := t.claim(dibs.ClaimRequest{N: n})
		t.finish(outcomes(jobs, completed)...)
		return t.stats(dibs.DefaultQueue).Completed == n
	})
}

// A store may remember how far it has claimed. It must still claim a job that another store
// gives back before that place.
func givenBackBehind(t *test) {
	other := t.Another(t)
	all := t.enqueue(dibs.NewJob{Kind: "k"})
	old := t.claimOne(dibs.ClaimRequest{})
	t.waitUntilTime(old.RunAt.Add(200 * time.Millisecond))
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.complete(t.claimOne(dibs.ClaimRequest{}))
	t.must(other.Finish(t.ctx, []dibs.Outcome{old.Lease().Release()}))
	var reclaimed []*dibs.RawJob
	releasedAt := time.Now()
	t.waitUntil("it is claimed, or too late", func() bool {
		reclaimed = t.claim(dibs.ClaimRequest{N: 2})
		return len(reclaimed) > 0 || time.Since(releasedAt) > promptly
	})
	sameIDs(t, "claimed again", ids(reclaimed), all)
}

func claimedAhead(t *test) {
	for _, c := range []struct {
		queue string
		limit int
		group string
	}{{queue: "free"}, {queue: "limited", limit: 9}, {queue: "grouped", group: "g"}} {
		t.set(c.queue, dibs.QueueChange{Concurrency: new(c.limit), GroupLimit: new(9)})
		all := t.enqueue(copies(8, dibs.NewJob{Queue: c.queue, Kind: "k", Group: c.group})...)
		got := ids(t.claim(dibs.ClaimRequest{Queue: c.queue, N: 6, Ahead: 4}))
		if c.queue == "free" && len(got) == 6 { // a store need not give jobs ahead
			sameIDs(t, c.queue, got, all[:6])
			continue
		}
		sameIDs(t, c.queue, got, all[:2])
		sameIDs(t, c.queue+", only ahead", ids(t.claim(dibs.ClaimRequest{Queue: c.queue, N: 3, Ahead: 3})), nil)
	}
}
