package storetest

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var sweepCases = []oneCase{
	{"a job whose lease ended waits again in its old place", sweepExpired},
	{"live leases are left alone", sweepLive},
	{"many abandoned claims come back with two sweeps", sweepMany},
	{"an old claim that ends takes nothing from the new owner", sweepNewOwner},
	{"a job that kills its worker dies too", sweepPoison},
	{"attempts that do not count do not kill", sweepExcused},
	{"a cancelled job whose worker died is not run again", sweepCancelled},
	{"claiming alone finds abandoned jobs within lease and 2 s", claimFindsExpired},
	{"another store finds the abandoned jobs of a closed one", otherFindsExpired},
	{"finished jobs go when their time is over", sweepRetention},
	{"sweeps at once find each thing once", sweepAtOnce},
}

// Requirement 4: no request is left behind: A locks a row, its server crashes, the
// lock expires, B picks it up. Requirement 1: or started, not ended, timed out.
func sweepExpired(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	t.inRealTime()
	old := t.claim(dibs.ClaimRequest{N: 2, Worker: "A"})
	t.expire(old...)
	equal(t, "swept", t.sweep(), dibs.Swept{Expired: 2})
	j := t.get(all[0])
	equal(t, "state, attempt, excused, run_at, token", []any{j.State, j.Attempt, j.Excused, j.RunAt, j.Token},
		[]any{dibs.Waiting, 1, 0, old[0].RunAt, dibs.Token{}})
	equal(t, "errors", len(j.Errors), 1)
	e := j.Errors[0]
	equal(t, "attempt, worker", []any{e.Attempt, e.Worker}, []any{1, "A"})
	if !strings.Contains(e.Error, "lease expired") {
		t.Fatalf("error: got %q", e.Error)
	}
	reclaimed := t.claim(dibs.ClaimRequest{N: 3, Worker: "B"})
	sameIDs(t, "claimed again", ids(reclaimed), all)
	equal(t, "attempt", reclaimed[0].Attempt, 2)
	equal(t, "swept again", t.sweep(), dibs.Swept{})
}

func sweepLive(t *test) {
	j := t.runningJob()
	equal(t, "swept", t.sweep(), dibs.Swept{})
	sameJob(t, t.get(j.ID), j)
}

// Workers sweep once a second, and abandoned jobs must start within 2 s after their leases
// end. So two sweeps must find all of them, although each works in batches.
func sweepMany(t *test) {
	const n = 251
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	var jobs []*dibs.RawJob
	for range n {
		jobs = append(jobs, t.claimOne(dibs.ClaimRequest{}))
	}
	t.expire(jobs...)
	equal(t, "expired by two sweeps", t.sweep().Expired+t.sweep().Expired, n)
	equal(t, "claimed again", len(t.claim(dibs.ClaimRequest{N: n})), n)
}

func sweepNewOwner(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	old := t.claim(dibs.ClaimRequest{N: 2, Worker: "A"})
	t.finish(old[0].Lease().Release())
	fresh := t.claimOne(dibs.ClaimRequest{Worker: "B"})
	t.inRealTime() // the job's times must not change
	t.expire(old[1])
	equal(t, "swept", t.sweep(), dibs.Swept{Expired: 1})
	sameJob(t, t.get(old[0].ID), fresh)
}

// Requirement 5: a poison message must not loop; attempts are counted at the claim.
func sweepPoison(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 3})[0]
	t.inRealTime() // the times of errors are compared with those of claims
	var claimed []*dibs.RawJob
	for n := 1; n <= 3; n++ {
		j := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
		claimed = append(claimed, j)
		equal(t, "attempt and last attempt", []any{j.Attempt, j.LastAttempt()}, []any{n, n == 3})
		t.waitForExpiry(j)
		t.sweep()
	}
	got := t.get(id)
	equal(t, "state, attempt, errors", []any{got.State, got.Attempt, len(got.Errors)}, []any{dibs.Dead, 3, 3})
	for i, e := range got.Errors {
		t.attemptOf(e, claimed[i])
		if !strings.Contains(e.Error, "lease expired") {
			t.Fatalf("error: got %q", e.Error)
		}
	}
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
}

func sweepExcused(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 2})[0]
	for range 3 {
		t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Release())
	}
	for _, want := range []dibs.State{dibs.Waiting, dibs.Dead} {
		j := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
		t.waitForExpiry(j)
		t.sweep()
		t.inState(want, id)
	}
}

func sweepCancelled(t *test) {
	j := t.runningJob()
	t.cancel(j.ID)
	t.expire(j)
	t.sweep()
	t.inState(dibs.Cancelled, j.ID)
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
}

// Requirement 4: by default a killed worker's jobs run elsewhere within seconds.
func claimFindsExpired(t *test) {
	t.enqueue(copies(5, dibs.NewJob{Kind: "k"})...)
	old := t.claim(dibs.ClaimRequest{N: 5, Worker: "killed", Lease: dibs.MinLease})
	other := t.Another(t)
	var reclaimed []*dibs.RawJob
	t.waitUntil("the abandoned jobs are claimed", func() bool {
		reclaimed = append(reclaimed, t.claimOn(other, dibs.ClaimRequest{N: 5, Worker: "live"})...)
		return len(reclaimed) == 5
	})
	for _, j := range reclaimed {
		if late := j.ClaimedAt.Sub(old[0].LeaseUntil); late > promptly {
			t.Fatalf("job %d started %v after its lease had ended", j.ID, late)
		}
	}
}

func otherFindsExpired(t *test) {
	dying := t.Another(t)
	id := t.enqueueOn(dying, dibs.NewJob{Kind: "k"})[0]
	t.claimOn(dying, dibs.ClaimRequest{N: 1, Lease: dibs.MinLease})
	t.must(dying.Close())
	sameIDs(t, "claimed", ids(t.claimSoon(dibs.ClaimRequest{}, 1)), []int64{id})
}

// Requirement 1: retention by option.
func sweepRetention(t *test) {
	const short = 50 * time.Millisecond
	t.set("short", dibs.QueueChange{KeepCompleted: new(short), KeepDead: new(short), KeepCancelled: new(short)})
	var jobs []*dibs.RawJob
	for _, q := range []string{"short", "long"} {
		t.enqueue(copies(3, dibs.NewJob{Queue: q, Kind: "k"})...)
		jobs = append(jobs, t.claim(dibs.ClaimRequest{Queue: q, N: 3})...)
	}
	for i := range 2 {
		three := jobs[3*i:]
		t.finish(three[0].Lease().Complete(nil), three[1].Lease().Die("e"), three[2].Lease().Cancel("e"))
	}
	pruned := 0
	t.waitUntil("three jobs are deleted", func() bool {
		pruned += t.sweep().Pruned
		return pruned == 3
	})
	for _, j := range jobs[:3] {
		t.expectGone(j.ID)
	}
	t.inState(dibs.Completed, jobs[3].ID)
	t.inState(dibs.Dead, jobs[4].ID)
	t.inState(dibs.Cancelled, jobs[5].ID)
}

func sweepAtOnce(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const n = 50
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	t.waitForExpiry(t.claim(dibs.ClaimRequest{N: n, Lease: dibs.MinLease})...)
	var expired atomic.Int64
	t.runAtOnce(6, func(i int) error {
		s, err := stores[i%2].Sweep(t.ctx)
		expired.Add(int64(s.Expired))
		return err
	})
	expired.Add(int64(t.sweep().Expired))
	equal(t, "expired", expired.Load(), int64(n))
	for _, j := range t.claim(dibs.ClaimRequest{N: n}) {
		equal(t, "attempt and errors", []int{j.Attempt, len(j.Errors)}, []int{2, 1})
	}
}
