package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A write with a token that is no longer valid changes nothing, and returns an error.
// Requirement 5: the update fails if somebody else was there.
var fenceCases = []oneCase{
	{"a wrong token is refused", wrongToken},
	{"an ended lease is refused, swept or not", endedLease},
	{"the token of an earlier claim is refused", earlierToken},
	{"a finished job is refused, however it finished", finishedRefused},
	{"a job that was never claimed is refused", neverClaimed},
	{"an unknown job is refused", unknownRefused},
	{"a pruned job is refused", prunedRefused},
	{"the others of the batch take effect", othersTakeEffect},
	{"of two that finish at once one is refused", finishAtOnce},
}

// endings returns an outcome of every kind for one lease.
func endings(l dibs.Lease) []dibs.Outcome {
	return []dibs.Outcome{
		l.Complete([]byte(`"r"`)), l.Retry("e"), l.RetryAfter(0, "e"), l.Snooze(time.Second), l.Release(), l.Die("e"), l.Cancel("e"),
	}
}

// allRefused expects every write with this lease to be refused and to change nothing.
func (t *test) allRefused(l dibs.Lease) {
	t.Helper()
	try := func() {
		t.Helper()
		for _, o := range endings(l) {
			t.expectRefused([]int64{l.ID}, o)
		}
		sameIDs(t, "lost by Extend", t.extend(time.Minute, l).Lost, []int64{l.ID})
	}
	if _, err := t.db.Get(t.ctx, l.ID); errors.Is(err, dibs.ErrNotFound) {
		try()
		t.expectGone(l.ID)
		return
	}
	t.expectUnchanged(l.ID, try)
}

func wrongToken(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	a, b := t.claimOne(dibs.ClaimRequest{}), t.claimOne(dibs.ClaimRequest{})
	t.allRefused(dibs.Lease{ID: a.ID, Token: b.Token})
	t.allRefused(dibs.Lease{ID: a.ID, Token: dibs.Token{1}})
	t.finish(a.Lease().Complete(nil), b.Lease().Complete(nil))
}

func endedLease(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	t.waitForExpiry(j)
	t.allRefused(j.Lease())
	t.sweep()
	t.inState(dibs.Waiting, j.ID)
	t.allRefused(j.Lease())
}

func earlierToken(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	old := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	current := t.claimSoon(dibs.ClaimRequest{Lease: time.Minute}, 1)[0]
	t.allRefused(old.Lease())
	t.finish(current.Lease().RetryAfter(0, "e"))
	t.allRefused(current.Lease())
	last := t.claimOne(dibs.ClaimRequest{})
	t.allRefused(old.Lease())
	t.allRefused(current.Lease())
	t.finish(last.Lease().Complete(nil))
	t.inState(dibs.Completed, old.ID)
}

func finishedRefused(t *test) {
	n := len(endings(dibs.Lease{}))
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: n})
	for i, j := range jobs {
		t.finish(endings(j.Lease())[i])
	}
	for _, j := range jobs {
		t.allRefused(j.Lease())
	}
}

func neverClaimed(t *test) {
	all := t.enqueue(dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k", Group: "g"}, dibs.NewJob{Kind: "k", Group: "g"}, dibs.NewJob{Kind: "k"})
	t.cancel(all[3])
	for _, id := range all {
		t.allRefused(dibs.Lease{ID: id, Token: dibs.Token{1}})
	}
}

func unknownRefused(t *test) {
	t.allRefused(dibs.Lease{ID: 1 << 60, Token: dibs.Token{1}})
}

func prunedRefused(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{})
	t.finish(j.Lease().Complete(nil))
	n, err := t.db.Prune(t.ctx, "", "", 0)
	t.must(err)
	equal(t, "pruned", n, 1)
	t.allRefused(j.Lease())
}

// Requirement 1: results are reported row by row by id, also for a batch claimed in one call.
func othersTakeEffect(t *test) {
	t.enqueue(copies(9, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 9})
	t.expire(jobs[1], jobs[4])
	t.finish(jobs[7].Lease().Complete(nil))
	stale := []int64{jobs[1].ID, jobs[4].ID, jobs[7].ID}
	var before [3]*dibs.RawJob
	for i, id := range stale {
		before[i] = t.get(id)
	}
	var batch []dibs.Outcome
	for i, j := range jobs {
		batch = append(batch, endings(j.Lease())[i%7])
	}
	t.expectRefused(stale, batch...)
	for i, id := range stale {
		sameJob(t, t.get(id), before[i])
	}
	want := map[dibs.Ending]dibs.State{
		dibs.EndCompleted: dibs.Completed, dibs.EndRetry: dibs.Waiting, dibs.EndSnooze: dibs.Waiting,
		dibs.EndRelease: dibs.Waiting, dibs.EndDead: dibs.Dead, dibs.EndCancelled: dibs.Cancelled,
	}
	for _, o := range batch {
		if !slices.Contains(stale, o.ID) {
			t.inState(want[o.Ending], o.ID)
		}
	}
}

// Two finishes can have the same token: a worker repeats a call whose first attempt was only
// slow. Exactly one of them must succeed.
func finishAtOnce(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const n = 40
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: n, Lease: time.Minute})
	var accepted atomic.Int64
	t.runAtOnce(4, func(i int) error {
		for _, j := range jobs {
			err := stores[i%2].Finish(t.ctx, []dibs.Outcome{endings(j.Lease())[i]})
			if err == nil {
				accepted.Add(1)
			} else if !errors.Is(err, dibs.ErrLeaseLost) {
				return fmt.Errorf("finish of job %d: %w", j.ID, err)
			}
		}
		return nil
	})
	equal(t, "accepted outcomes", accepted.Load(), int64(n))
	for _, j := range jobs {
		equal(t, "attempt", t.get(j.ID).Attempt, 1)
	}
}
