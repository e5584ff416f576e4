package storetest

import (
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var resumeCases = []oneCase{
	{"a restarted worker gets its own jobs under one new token", resumeOwn},
	{"the queue's lease is the one that another store has set", resumeElsewhere},
	{"the old tokens are lost", resumeOldTokens},
	{"nothing held is not an error", resumeNothing},
	{"other workers and other queues keep theirs", resumeOnlyOwn},
	{"resumed jobs come in the queue's order", resumeOrder},
	{"ended leases are not resumed", resumeEnded},
	{"jobs without attempts left are not given, and die when their lease ends", resumeNoAttempts},
	{"a resumed job that is lost again is found again", resumeLostAgain},
	{"of two that resume at once one gets each job", resumeAtOnce},
}

func (t *test) resume(r dibs.ClaimRequest) []*dibs.RawJob {
	t.Helper()
	jobs, err := t.db.Resume(t.ctx, r)
	t.must(err)
	slices.SortFunc(jobs, func(a, b *dibs.RawJob) int { return int(a.ID - b.ID) })
	return jobs
}

// Requirement 5: a client id, so that a client that died finds its own row when it restarts.
func resumeOwn(t *test) {
	all := t.enqueue(copies(6, dibs.NewJob{Kind: "k", Payload: "p"})...)
	old := append(t.claim(dibs.ClaimRequest{N: 2}), t.claim(dibs.ClaimRequest{N: 2})...)
	jobs := t.resume(dibs.ClaimRequest{Worker: "w", Lease: time.Minute})
	sameIDs(t, "resumed", ids(jobs), all[:4])
	for i, j := range jobs {
		if j.Token.IsZero() || j.Token == old[i].Token || j.Token != jobs[0].Token {
			t.Fatalf("token %v, was %v", j.Token, old[i].Token)
		}
		near(t, "lease", j.LeaseUntil.Sub(j.ClaimedAt), time.Minute)
		equal(t, "attempt, worker, payload", []any{j.Attempt, j.Worker, string(j.Payload)}, []any{2, "w", `"p"`})
		sameJob(t, t.get(j.ID), j)
	}
	t.finish(outcomes(jobs, completed)...)
	t.inState(dibs.Completed, all[:4]...)

	t.set(dibs.DefaultQueue, dibs.QueueChange{Lease: new(time.Hour)})
	t.claim(dibs.ClaimRequest{N: 1, Lease: time.Minute})
	resumedAgain := t.resume(dibs.ClaimRequest{Worker: "w"})
	sameIDs(t, "resumed", ids(resumedAgain), all[4:5])
	near(t, "the queue's lease", resumedAgain[0].LeaseUntil.Sub(resumedAgain[0].ClaimedAt), time.Hour)
}

func resumeElsewhere(t *test) {
	other := t.Another(t)
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.claimOn(other, dibs.ClaimRequest{N: 1}) // the other store reads the settings
	t.set(dibs.DefaultQueue, dibs.QueueChange{Lease: new(time.Hour)})
	jobs, err := other.Resume(t.ctx, dibs.ClaimRequest{Worker: "w"})
	t.must(err)
	near(t, "lease", jobs[0].LeaseUntil.Sub(jobs[0].ClaimedAt), time.Hour)
}

func resumeOldTokens(t *test) {
	old := t.runningJob()
	j := t.resume(dibs.ClaimRequest{Worker: "w"})[0]
	t.allRefused(old.Lease())
	t.finish(j.Lease().Complete(nil))
}

func resumeNothing(t *test) {
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "w"})), nil)
	t.enqueue(dibs.NewJob{Kind: "k"})
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "w"})), nil)
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Queue: "nobody's", Worker: "w"})), nil)
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Complete(nil))
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "w"})), nil)
}

func resumeOnlyOwn(t *test) {
	t.enqueue(append(copies(3, dibs.NewJob{Kind: "k"}), dibs.NewJob{Queue: "q", Kind: "k"})...)
	mine := t.claimOne(dibs.ClaimRequest{Worker: "me"})
	others := []*dibs.RawJob{
		t.claimOne(dibs.ClaimRequest{Worker: "other"}),
		t.claimOne(dibs.ClaimRequest{Worker: "ME"}),
		t.claimOne(dibs.ClaimRequest{Queue: "q", Worker: "me"}),
	}
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "me"})), []int64{mine.ID})
	for _, j := range others {
		sameJob(t, t.get(j.ID), j)
	}
	t.finish(outcomes(others, completed)...)
}

func resumeOrder(t *test) {
	all := t.enqueue(
		dibs.NewJob{Kind: "k", Priority: new(2)}, dibs.NewJob{Kind: "k", Priority: new(1)},
		dibs.NewJob{Kind: "k", Priority: new(1)}, dibs.NewJob{Kind: "k", Priority: new(0)},
	)
	t.claim(dibs.ClaimRequest{N: 2})
	t.claim(dibs.ClaimRequest{N: 2})
	for order, want := range map[dibs.Order][]int64{
		dibs.FIFO: {all[3], all[1], all[2], all[0]},
		dibs.LIFO: {all[3], all[2], all[1], all[0]},
	} {
		t.set(dibs.DefaultQueue, dibs.QueueChange{Order: &order})
		jobs, err := t.db.Resume(t.ctx, dibs.ClaimRequest{Worker: "w"})
		t.must(err)
		sameIDs(t, string(order), ids(jobs), want)
	}
}

func resumeEnded(t *test) {
	all := t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	t.expire(jobs[0])
	sameIDs(t, "resumed", ids(t.resume(dibs.ClaimRequest{Worker: "w", Lease: time.Hour})), all[1:])
	sameIDs(t, "claimed by another", ids(t.claimSoon(dibs.ClaimRequest{Worker: "w2"}, 1)), all[:1])
}

func resumeNoAttempts(t *test) {
	all := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 1}, dibs.NewJob{Kind: "k", MaxAttempts: 2})
	old := t.claim(dibs.ClaimRequest{N: 2})
	jobs := t.resume(dibs.ClaimRequest{Worker: "w", Lease: time.Hour})
	sameIDs(t, "resumed", ids(jobs), all[1:])
	t.expire(old[0])
	t.sweep()
	t.inState(dibs.Dead, all[0])
	t.inState(dibs.Running, all[1])
	sameIDs(t, "resumed once more", ids(t.resume(dibs.ClaimRequest{Worker: "w"})), nil)
}

func resumeLostAgain(t *test) {
	old := t.runningJob()
	j := t.resume(dibs.ClaimRequest{Worker: "w", Lease: dibs.MinLease})
	equal(t, "resumed jobs", len(j), 1)
	reclaimed := t.claimSoon(dibs.ClaimRequest{Worker: "w2"}, 1)[0]
	equal(t, "job and attempt", []any{reclaimed.ID, reclaimed.Attempt}, []any{old.ID, 3})
}

func resumeAtOnce(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const n = 30
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	t.claim(dibs.ClaimRequest{N: n})
	got := make([][]*dibs.RawJob, 4)
	t.runAtOnce(len(got), func(i int) (err error) {
		got[i], err = stores[i%2].Resume(t.ctx, dibs.ClaimRequest{Worker: "w", Lease: time.Hour})
		return err
	})
	// Each call may take over the jobs of an earlier one, but only the last of them holds them.
	current := map[int64]dibs.Lease{}
	attempts := map[int64]int{}
	for _, jobs := range got {
		for _, j := range jobs {
			if j.Attempt > attempts[j.ID] {
				attempts[j.ID], current[j.ID] = j.Attempt, j.Lease()
			} else if j.Attempt == attempts[j.ID] {
				t.Fatalf("attempt %d of job %d was given twice", j.Attempt, j.ID)
			}
		}
	}
	equal(t, "resumed jobs", len(current), n)
	for _, jobs := range got {
		for _, j := range jobs {
			if current[j.ID] != j.Lease() {
				t.expectRefused([]int64{j.ID}, j.Lease().Complete(nil))
			}
		}
	}
	for _, l := range current {
		t.finish(l.Complete(nil))
	}
}
