package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

var extendCases = []oneCase{
	{"a lease ends so much from now", extendMoves},
	{"a lease that is extended in time does not end", extendKeeps},
	{"a lease can be made shorter", extendShortens},
	{"lost leases are told, the others extended", extendLost},
	{"a job to be cancelled is told each time, and extended", extendCancelled},
	{"an attempt that runs longer than its queue allows is told each time, and extended", extendTimedOut},
	{"a timeout that is set, lengthened or removed counts at the next extension", extendTimeoutChanged},
	{"leases of many claims are extended in one call", extendManyClaims},
	{"the jobs of one claim expire one by one", expireOneByOne},
	{"a lease that ends soon after another is found as soon", expireSoonAfter},
}

// Requirement 4: leases with heartbeats.
func extendMoves(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2, Lease: time.Minute})
	before := t.get(jobs[1].ID)
	t.extendAll(time.Hour, jobs[0].Lease())
	j := t.get(jobs[0].ID)
	if got := j.LeaseUntil.Sub(j.ClaimedAt); got < time.Hour || got > time.Hour+patience {
		t.Fatalf("the lease ends %v after the claim, want an hour from the call", got)
	}
	jobs[0].LeaseUntil = j.LeaseUntil
	sameJob(t, j, jobs[0])
	sameJob(t, t.get(jobs[1].ID), before)
}

func extendKeeps(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{Lease: t.someLease()})
	t.extendAll(time.Hour, j.Lease())
	t.waitUntilTime(j.LeaseUntil)
	t.sweep()
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
	t.finish(j.Lease().Complete(nil))
	t.inState(dibs.Completed, j.ID)
}

// The end of a lease must also be noticed in time if an extension shortened the lease.
func extendShortens(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 3, Lease: time.Hour})
	t.extendAll(dibs.MinLease, jobs[1].Lease())
	reclaimed := t.claimSoon(dibs.ClaimRequest{}, 1)
	sameIDs(t, "claimed again", ids(reclaimed), all[1:2])
	if late := reclaimed[0].ClaimedAt.Sub(jobs[1].ClaimedAt); late > 10*time.Second {
		t.Fatalf("it took %v", late)
	}
	t.inState(dibs.Running, all...)
	t.finish(jobs[0].Lease().Complete(nil), jobs[2].Lease().Complete(nil))
}

func extendLost(t *test) {
	t.enqueue(copies(8, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 8})
	t.inRealTime() // the times of the other jobs must not change
	t.expire(jobs[0])
	t.finish(jobs[1].Lease().Complete(nil), jobs[2].Lease().Release(), jobs[3].Lease().Die("e"))
	wrong := dibs.Lease{ID: jobs[4].ID, Token: dibs.Token{1}}
	unknown := dibs.Lease{ID: 1 << 60, Token: dibs.Token{1}}
	extended := append(leases(jobs[:4]), wrong, unknown, jobs[5].Lease(), jobs[6].Lease())
	before := t.get(jobs[4].ID)
	e := t.extend(2*time.Hour, extended...)
	want := append(ids(jobs[:5]), unknown.ID)
	slices.Sort(want)
	sameIDs(t, "lost", e.Lost, want)
	sameIDs(t, "cancelled", e.Cancelled, nil)
	sameJob(t, t.get(jobs[4].ID), before)
	sameJob(t, t.get(jobs[7].ID), jobs[7])
	for _, j := range jobs[5:7] {
		if got := t.get(j.ID).LeaseUntil; !got.After(j.LeaseUntil) {
			t.Fatalf("the lease on job %d was not extended", j.ID)
		}
	}
}

func extendCancelled(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	sameIDs(t, "cancelled before", t.extend(time.Hour, leases(jobs)...).Cancelled, nil)
	t.cancel(all[1])
	for range 2 {
		e := t.extend(2*time.Hour, leases(jobs)...)
		sameIDs(t, "cancelled", e.Cancelled, all[1:2])
		sameIDs(t, "lost", e.Lost, nil)
	}
	if j := t.get(all[1]); !j.LeaseUntil.After(jobs[1].LeaseUntil) || !j.CancelRequested {
		t.Fatalf("lease until %v, cancel requested %v", j.LeaseUntil, j.CancelRequested)
	}
}

func extendTimedOut(t *test) {
	t.set("q", dibs.QueueChange{JobTimeout: new(t.someLease())})
	all := t.enqueue(copies(2, dibs.NewJob{Queue: "q", Kind: "k"})...)
	other := t.enqueue(dibs.NewJob{Kind: "k"}) // a job of another queue, without a timeout
	const lease = time.Hour
	first := t.claim(dibs.ClaimRequest{Queue: "q", N: 1, Lease: lease})[0]
	third := t.claimOne(dibs.ClaimRequest{Lease: lease})
	equal(t, "timeouts that the claims tell of", []time.Duration{first.Timeout, third.Timeout}, []time.Duration{t.someLease(), 0})
	sameIDs(t, "timed out at once", t.extend(lease, first.Lease(), third.Lease()).TimedOut, nil)
	t.waitUntilTime(first.ClaimedAt.Add(t.someLease()))
	second := t.claimOne(dibs.ClaimRequest{Queue: "q", Lease: lease})
	equal(t, "the second job", second.ID, all[1])
	for range 2 {
		e := t.extend(lease, first.Lease(), second.Lease(), third.Lease())
		sameIDs(t, "timed out", e.TimedOut, all[:1])
		sameIDs(t, "lost", e.Lost, nil)
	}
	t.finish(first.Lease().Retry("too long")) // counts like any other failure
	if j := t.get(first.ID); j.State != dibs.Waiting || j.Attempt-j.Excused != 1 {
		t.Fatalf("the job is %s after %d counted attempts", j.State, j.Attempt-j.Excused)
	}
	t.inState(dibs.Running, all[1], other[0])
}

func extendTimeoutChanged(t *test) {
	jobs := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{Queue: "q", Lease: time.Hour})
	t.waitUntilTime(j.ClaimedAt.Add(t.someLease()))
	for _, c := range []struct {
		timeout time.Duration
		want    []int64
	}{{0, nil}, {t.someLease(), jobs}, {dibs.MaxDelay, nil}, {time.Microsecond, jobs}, {0, nil}} {
		_, err := t.Another(t).ChangeQueue(t.ctx, "q", dibs.QueueChange{JobTimeout: &c.timeout}.Apply)
		t.must(err)
		sameIDs(t, fmt.Sprint("timed out under a timeout of ", c.timeout), t.extend(time.Hour, j.Lease()).TimedOut, c.want)
	}
}

func extendManyClaims(t *test) {
	t.enqueue(append(copies(10, dibs.NewJob{Kind: "k"}), copies(10, dibs.NewJob{Queue: "q", Kind: "k"})...)...)
	var held []dibs.Lease
	for range 5 {
		held = append(held, leases(t.claim(dibs.ClaimRequest{N: 2}))...)
		held = append(held, leases(t.claim(dibs.ClaimRequest{Queue: "q", N: 2}))...)
	}
	equal(t, "leases", len(held), 20)
	t.extendAll(5*time.Hour, held...)
	for _, l := range held {
		j := t.get(l.ID)
		if got := j.LeaseUntil.Sub(j.ClaimedAt); got < 5*time.Hour {
			t.Fatalf("the lease on job %d ends %v after its claim", l.ID, got)
		}
	}
}

// A script may hand the jobs of one claim to different programs.
func expireOneByOne(t *test) {
	all := t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 4, Lease: t.someLease()})
	t.extendAll(time.Hour, jobs[0].Lease(), jobs[2].Lease())
	t.waitForExpiry(jobs[1], jobs[3])
	t.sweep()
	t.inState(dibs.Waiting, all[1], all[3])
	t.inState(dibs.Running, all[0], all[2])
	t.expire(jobs[2])
	t.sweep()
	t.inState(dibs.Waiting, all[2])
	t.inState(dibs.Running, all[0])
	t.finish(jobs[0].Lease().Complete(nil))
	sameIDs(t, "claimed again", ids(t.claim(dibs.ClaimRequest{N: 4})), all[1:])
}

func expireSoonAfter(t *test) {
	all := t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	t.extendAll(dibs.MinLease, jobs[0].Lease())
	t.extendAll(900*time.Millisecond, jobs[1].Lease())
	ends := t.get(all[1]).LeaseUntil
	t.waitForExpiry(jobs[0])
	t.sweep()
	expectConsistent(t.T, t.db) // the check reports a claim whose next sweep is planned too late
	for _, j := range t.claimSoon(dibs.ClaimRequest{}, 2) {
		if late := j.ClaimedAt.Sub(ends); late > promptly {
			t.Fatalf("job %d started %v after its lease had ended", j.ID, late)
		}
	}
}
