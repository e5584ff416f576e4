package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var jobsCases = []oneCase{
	{"a job can be got in every state", getEveryState},
	{"a waiting or blocked job is cancelled at once", cancelWaiting},
	{"a running job is asked to stop, and its worker decides", cancelRunning},
	{"cancelling what is final or unknown does nothing", cancelFinal},
	{"a cancelled job that fails is not run again", cancelThenRetry},
	{"a cancelled job that fails for the last time is cancelled, not dead, and not counted as failed", cancelThenRetryLast},
	{"a finished job is put back with all attempts and its history", requeueFinal},
	{"a job that is put back has forgotten its cancellation", requeueForgetsCancel},
	{"only final jobs are put back", requeueOnlyFinal},
	{"an edited priority moves the job", editPriority},
	{"an edited run_at puts the job off or calls it up", editRunAt},
	{"running and final jobs are not edited", editOnlyWaiting},
	{"prune deletes by queue, state and age", pruneNarrowed},
	{"prune leaves what is not final", pruneOnlyFinal},
	{"jobs that have ended are deleted as they were listed, and counted no more", deleteEnded},
	{"jobs that have ended are put back as they were listed", requeueEnded},
	{"a job is deleted or put back, never both", deleteOrRequeue},
}

// Requirement 5: states.
func getEveryState(t *test) {
	blocked := t.enqueue(copies(2, grouped("g"))...)[1]
	t.enqueue(copies(5, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 6})
	equal(t, "claimed jobs", len(jobs), 6)
	t.finish(jobs[1].Lease().Complete(nil), jobs[2].Lease().Die("e"), jobs[3].Lease().Cancel("e"), jobs[4].Lease().RetryAfter(time.Hour, "e"))
	t.inState(dibs.Blocked, blocked)
	t.inState(dibs.Completed, jobs[1].ID)
	t.inState(dibs.Dead, jobs[2].ID)
	t.inState(dibs.Cancelled, jobs[3].ID)
	t.inState(dibs.Waiting, jobs[4].ID)
	t.inState(dibs.Running, jobs[5].ID)
	t.expectGone(jobs[5].ID + 1)
	t.expectGone(math.MaxInt64)
}

func cancelWaiting(t *test) {
	blocked := t.enqueue(copies(2, grouped("g"))...)
	t.claim(dibs.ClaimRequest{N: 1})
	later := grouped("h")
	later.Delay = time.Hour
	waiting := t.enqueue(dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k", Delay: time.Hour}, later)
	all := append(blocked[1:], waiting...)
	ended, asked := t.cancel(all...)
	sameIDs(t, "cancelled", ended, all)
	sameIDs(t, "asked to stop", asked, nil)
	t.inState(dibs.Cancelled, all...)
	j := t.get(all[0])
	equal(t, "attempt, errors", []int{j.Attempt, len(j.Errors)}, []int{0, 0})
	equal(t, "cancel requested", j.CancelRequested, true)
	if j.FinishedAt.IsZero() {
		t.Fatal("finished_at is missing")
	}
	t.claimExactly("after that")
}

func cancelRunning(t *test) {
	all := t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	for range 2 {
		ended, asked := t.cancel(all...)
		sameIDs(t, "cancelled", ended, nil)
		sameIDs(t, "asked to stop", asked, all)
	}
	t.inState(dibs.Running, all...)
	equal(t, "cancel requested", t.get(all[0]).CancelRequested, true)
	t.finish(jobs[0].Lease().Cancel("stopped"), jobs[1].Lease().Complete(nil))
	t.inState(dibs.Cancelled, all[0])
	t.inState(dibs.Completed, all[1])
}

func cancelFinal(t *test) {
	j := t.runningJob()
	t.finish(j.Lease().Complete(nil))
	t.expectUnchanged(j.ID, func() { sameIDs(t, "cancelled", slices.Concat(t.cancel(j.ID, 1<<60)), nil) })
	t.expectGone(1 << 60)
}

// After a request to cancel, a job whose handler fails must not start again.
func cancelThenRetry(t *test) {
	t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	t.cancel(ids(jobs)...)
	t.finish(jobs[0].Lease().RetryAfter(0, "e"), jobs[1].Lease().Snooze(0), jobs[2].Lease().Release())
	t.claimExactly("after that")
	t.inState(dibs.Cancelled, ids(jobs)...)
}

// Requirement 4: dead with its error history; can be requeued.
func requeueFinal(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 2, Priority: new(9), Payload: "p"})[0]
	for range 2 {
		t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().RetryAfter(0, "e"))
	}
	dead := t.get(id)
	equal(t, "state", dead.State, dibs.Dead)
	sameIDs(t, "requeued", t.requeue(id), []int64{id})
	j := t.get(id)
	equal(t, "state, attempt, priority, payload, errors", []any{j.State, j.Attempt, j.Priority, string(j.Payload), len(j.Errors)},
		[]any{dibs.Waiting, 2, 9, `"p"`, 2})
	if !j.FinishedAt.IsZero() || j.RunAt.Before(dead.FinishedAt) {
		t.Fatalf("finished_at %v, run_at %v after it was put back", j.FinishedAt, j.RunAt)
	}
	for attempt := 3; attempt <= 4; attempt++ {
		j := t.claimOne(dibs.ClaimRequest{})
		equal(t, "attempt and last attempt", []any{j.Attempt, j.LastAttempt()}, []any{attempt, attempt == 4})
		t.finish(j.Lease().RetryAfter(0, "e"))
	}
	t.inState(dibs.Dead, id)
	equal(t, "errors", len(t.get(id).Errors), 4)

	for _, end := range []func(dibs.Lease) dibs.Outcome{completed, func(l dibs.Lease) dibs.Outcome { return l.Cancel("e") }} {
		j := t.runningJob()
		t.finish(end(j.Lease()))
		sameIDs(t, "requeued", t.requeue(j.ID), []int64{j.ID})
		reclaimed := t.claimOne(dibs.ClaimRequest{})
		equal(t, "job and attempt", []any{reclaimed.ID, reclaimed.Attempt}, []any{j.ID, 2})
		t.finish(reclaimed.Lease().Complete(nil))
	}
}

func requeueForgetsCancel(t *test) {
	j := t.runningJob()
	t.cancel(j.ID)
	t.finish(j.Lease().Cancel("stopped"))
	t.requeue(j.ID)
	reclaimed := t.claimOne(dibs.ClaimRequest{})
	equal(t, "cancel requested", reclaimed.CancelRequested, false)
	sameIDs(t, "cancelled", t.extend(time.Hour, reclaimed.Lease()).Cancelled, nil)
	t.expire(reclaimed)
	t.sweep()
	t.inState(dibs.Waiting, j.ID)
}

func requeueOnlyFinal(t *test) {
	all := t.enqueue(append(copies(2, grouped("g")), dibs.NewJob{Kind: "k", Delay: time.Hour})...)
	t.claimExactly("the first", all[0])
	for _, id := range all {
		t.expectUnchanged(id, func() { sameIDs(t, "requeued", t.requeue(id, 1<<60), nil) })
	}
}

func cancelThenRetryLast(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 1})
	j := t.claimOne(dibs.ClaimRequest{})
	t.cancel(j.ID)
	t.finish(j.Lease().Retry("e"))
	t.inState(dibs.Cancelled, j.ID)
	equal(t, "errors", len(t.get(j.ID).Errors), 1)
	equal(t, "failed", t.stats(dibs.DefaultQueue).Failed, int64(0))
}

func editPriority(t *test) {
	all := t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	before := t.get(all[2])
	sameIDs(t, "edited", t.edit(admin.Edit{Priority: new(1)}, all[2], 1<<60), all[2:3])
	after := t.get(all[2])
	before.Priority = 1
	sameJob(t, after, before)
	t.edit(admin.Edit{Priority: new(dibs.MaxPriority)}, all[0])
	t.claimExactly("in the new order", all[2], all[1], all[3], all[0])
}

func editRunAt(t *test) {
	all := t.enqueue(append(copies(3, dibs.NewJob{Kind: "k"}), dibs.NewJob{Kind: "k", Delay: time.Hour})...)
	at := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
	sameIDs(t, "put off", t.edit(admin.Edit{RunAt: &at}, all[0]), all[:1])
	if got := t.get(all[0]).RunAt; !got.Equal(at) {
		t.Fatalf("run_at: got %v, want %v", got, at)
	}
	past := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	sameIDs(t, "called up", t.edit(admin.Edit{RunAt: &past, Priority: new(300)}, all[3]), all[3:])
	if j := t.get(all[3]); j.RunAt.Before(j.CreatedAt) {
		t.Fatalf("run_at is %v, before the job was created (%v)", j.RunAt, j.CreatedAt)
	}
	t.claimExactly("those due", all[1], all[2], all[3])
}

func editOnlyWaiting(t *test) {
	all := t.enqueue(copies(3, grouped("g"))...)
	first := t.claimExactly("the first", all[0])
	t.complete(first...)
	t.claimExactly("the second", all[1])
	sameIDs(t, "edited", t.edit(admin.Edit{Priority: new(7)}, append(all, all...)...), all[2:])
	equal(t, "priorities", []int{t.get(all[0]).Priority, t.get(all[1]).Priority, t.get(all[2]).Priority},
		[]int{dibs.DefaultPriority, dibs.DefaultPriority, 7})
}

func (t *test) prune(queue string, state dibs.State, olderThan time.Duration) int {
	t.Helper()
	n, err := t.db.Prune(t.ctx, queue, state, olderThan)
	t.must(err)
	return n
}

func pruneNarrowed(t *test) {
	for _, q := range []string{"a", "b"} {
		t.enqueue(copies(6, dibs.NewJob{Queue: q, Kind: "k"})...)
		jobs := t.claim(dibs.ClaimRequest{Queue: q, N: 6})
		for i, j := range jobs {
			t.finish([]dibs.Outcome{j.Lease().Complete(nil), j.Lease().Die("e"), j.Lease().Cancel("e")}[i%3])
		}
	}
	equal(t, "older than an hour", t.prune("", "", time.Hour), 0)
	equal(t, "deleted completed jobs of queue a", t.prune("a", dibs.Completed, 0), 2)
	equal(t, "deleted dead jobs of both queues", t.prune("", dibs.Dead, 0), 4)
	equal(t, "all of b", t.prune("b", "", 0), 4)
	equal(t, "of nobody's", t.prune("nobody's", "", 0), 0)
	remaining := t.list(admin.Filter{State: dibs.Cancelled})
	equal(t, "left", len(remaining), 2)
	s := t.stats("a")
	equal(t, "counts of a", []int64{s.Completed, s.Dead, s.Cancelled}, []int64{0, 0, 2})
	last := t.get(remaining[0].ID).FinishedAt
	t.waitUntilTime(last.Add(100 * time.Millisecond))
	equal(t, "older than 100 ms", t.prune("", "", 100*time.Millisecond), 2)
}

func pruneOnlyFinal(t *test) {
	all := t.enqueue(append(copies(2, grouped("g")), dibs.NewJob{Kind: "k", Delay: time.Hour})...)
	t.claimExactly("the first", all[0])
	equal(t, "pruned", t.prune("", "", 0), 0)
	for _, id := range all {
		t.get(id)
	}
}

func deleteEnded(t *test) {
	waiting := t.enqueue(grouped("g"), grouped("g"))
	equal(t, "claimed of no such kind", len(t.claim(dibs.ClaimRequest{N: 1, Kinds: []string{"none"}})), 0) // at the latest with this claim, the first job gets its place
	t.enqueue(wideJobs("q", 6, false)...)
	jobs := t.claim(dibs.ClaimRequest{Queue: "q", N: 6})
	t.finish(jobs[0].Lease().Complete([]byte("1")), jobs[1].Lease().Die("e"), jobs[2].Lease().Cancel("e"))
	first, until := t.endOf(ids(jobs[:3])...)
	t.waitUntilTime(until)
	t.finish(jobs[4].Lease().Die("later"))
	later := t.get(jobs[4].ID).FinishedAt
	t.waitUntilTime(later)
	t.finish(jobs[5].Lease().Complete(nil))
	all := append(ids(jobs), waiting...)
	for _, x := range []struct {
		until time.Time
		gone  []int64
	}{{first.Add(-time.Microsecond), nil}, {until, all[:3]}, {later, all[4:5]}, {time.Time{}, all[5:6]}} {
		deleted, err := t.db.DeleteEnded(t.ctx, append(all, all[0], 1<<50), x.until)
		t.must(err)
		sameIDs(t, "deleted", deleted, x.gone)
		for _, id := range x.gone {
			t.expectGone(id)
		}
		t.expectCounts()
	}
	t.inState(dibs.Running, all[3])
	t.inState(dibs.Waiting, waiting[0])
	t.inState(dibs.Blocked, waiting[1])
	deleted, err := t.db.DeleteEnded(t.ctx, nil, until)
	t.must(err)
	sameIDs(t, "deleted of none", deleted, nil)
	_, err = t.db.DeleteEnded(t.ctx, []int64{0}, until)
	invalid(t, err, "ids[0]")
	_, err = t.db.DeleteEnded(t.ctx, all, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	invalid(t, err, "until")
}

// A job that was listed as ended, put back by somebody else and done since, does not run again.
func requeueEnded(t *test) {
	all := t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 4})
	t.finish(jobs[0].Lease().Die("e"), jobs[1].Lease().Die("e"), jobs[2].Lease().Die("e"), jobs[3].Lease().Complete(nil))
	_, until := t.endOf(all...)
	t.waitUntilTime(until)
	_, err := t.db.Requeue(t.ctx, all[1:3], time.Time{})
	t.must(err)
	again := t.claim(dibs.ClaimRequest{N: 2})
	t.finish(again[0].Lease().Complete(nil), again[1].Lease().Die("anew"))
	back, err := t.db.Requeue(t.ctx, all, until)
	t.must(err)
	sameIDs(t, "put back", back, []int64{all[0], all[3]})
	t.inState(dibs.Waiting, all[0], all[3])
	t.inState(dibs.Completed, again[0].ID)
	t.inState(dibs.Dead, again[1].ID)
	t.expectCounts()
	back, err = t.db.Requeue(t.ctx, all, time.Time{})
	t.must(err)
	sameIDs(t, "put back, whenever they ended", back, ids(again))
}

// endOf is when the first and the last of some jobs have ended.
func (t *test) endOf(ids ...int64) (first, last time.Time) {
	t.Helper()
	for i, id := range ids {
		at := t.get(id).FinishedAt
		if i == 0 || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}

func deleteOrRequeue(t *test) {
	const n = 200
	another := t.Another(t)
	all := t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	for _, j := range t.claim(dibs.ClaimRequest{N: n}) {
		t.finish(j.Lease().Die("e"))
	}
	var done [4][]int64
	t.runAtOnce(len(done), func(i int) (err error) {
		db := []admin.Database{t.db, another}[i/2]
		for part := range slices.Chunk(all, 20) {
			change := db.DeleteEnded
			if i%2 == 0 {
				change = db.Requeue
			}
			changed, err := change(t.ctx, part, time.Now().Add(time.Hour))
			if err != nil {
				return err
			}
			done[i] = append(done[i], changed...)
		}
		return nil
	})
	seen := map[int64]int{}
	for i, changed := range done {
		for _, id := range changed {
			if seen[id]++; i%2 == 0 {
				t.inState(dibs.Waiting, id)
			} else {
				t.expectGone(id)
			}
		}
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("job %d was deleted or put back %d times", id, times)
		}
	}
	t.expectCounts()
}
