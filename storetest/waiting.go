package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Wait returns a job once it has ended, and never waits for an end that cannot come.
var waitingCases = []oneCase{
	{"a job that has ended is returned at once, as Get shows it", waitEnded},
	{"the end of a job ends all waiting for it, in every process", waitForEnd},
	{"what this store ends is seen at once", waitAtOnce},
	{"only the last end counts", waitRetried},
	{"a requeued job is waited for until it ends again", waitRequeued},
	{"a job that does not exist is not waited for", waitMissing},
	{"waiting ends with an error when the job ended and was not kept", waitUnkept},
	{"waiting ends with an error when the job ended and was pruned", waitPruned},
	{"waiting goes on while the queue is paused", waitPaused},
	{"the end of a context ends its own waiting only", waitContext},
	{"Close ends all waiting", waitClosed},
	{"a job that dies of its last lease ends the waiting", waitExpired},
	{"an end in a transaction counts from the commit on", waitTx},
	{"more waiters than a statement returns learn of the end", waitMany},
	{"many handlers that wait for other jobs do not stop each other", waitInHandlers},
}

// waited is the answer of one Wait.
type waited struct {
	job *dibs.RawJob
	err error
}

// waitFor waits for a job on a goroutine of its own.
func (t *test) waitFor(ctx context.Context, db admin.Database, id int64) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		j, err := db.Wait(ctx, id)
		c <- waited{j, err}
	}()
	return c
}

// expectEnd expects a Wait to return the job as Get shows it.
func (t *test) expectEnd(c <-chan waited, id int64, state dibs.State) {
	t.Helper()
	w := <-c
	t.must(w.err)
	equal(t, "state", w.job.State, state)
	sameJob(t, w.job, t.get(id))
}

// notYet expects a Wait to go on, after it has looked at its job. To see that it has, the test
// waits for another job in the same store, that has ended.
func (t *test) notYet(c <-chan waited) {
	t.Helper()
	id := t.enqueue(dibs.NewJob{Queue: "ended", Kind: "k"})[0]
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "ended"}).Lease().Complete(nil))
	for range 3 {
		_, err := t.db.Wait(t.ctx, id)
		t.must(err)
	}
	select {
	case w := <-c:
		t.Fatalf("Wait has returned %+v, %v", w.job, w.err)
	default:
	}
}

func waitEnded(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k", Payload: map[string]int{"n": 1}, Metadata: json.RawMessage(`{"a":1}`)})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	t.finish(jobs[0].Lease().Complete(json.RawMessage(`{"r":1}`)), jobs[1].Lease().Die("broken"))
	t.cancel(all[2])
	for i, state := range []dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled} {
		t.expectEnd(t.waitFor(t.ctx, t.db, all[i]), all[i], state)
		t.expectEnd(t.waitFor(t.ctx, t.Another(t), all[i]), all[i], state)
	}
	equal(t, "result", string(t.get(all[0]).Result), `{"r":1}`)
	equal(t, "errors", t.get(all[1]).Errors[0].Error, "broken")
}

func waitForEnd(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	other := t.Another(t)
	var waits [3][]<-chan waited
	for i, id := range all {
		for _, db := range []admin.Database{t.db, t.db, other} {
			waits[i] = append(waits[i], t.waitFor(t.ctx, db, id))
		}
	}
	t.notYet(waits[0][0])
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	t.notYet(waits[0][0])
	t.finish(jobs[0].Lease().Complete(nil))
	t.finish(jobs[1].Lease().Cancel("told to"))
	for _, c := range waits[0] {
		t.expectEnd(c, all[0], dibs.Completed)
	}
	for _, c := range waits[1] {
		t.expectEnd(c, all[1], dibs.Cancelled)
	}
	t.notYet(waits[2][0])
	t.cancel(all[2])
	for _, c := range waits[2] {
		t.expectEnd(c, all[2], dibs.Cancelled)
	}
}

// A wait that has lasted a second looks at its job every 250 ms. So it is no accident if it
// notices an end within 25 ms; even on a slow machine, it does so in one of the rounds.
func waitAtOnce(t *test) {
	const n, rounds = 4, 30
	for kind, end := range map[string]func(j *dibs.RawJob) error{
		"Finish": func(j *dibs.RawJob) error { return t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}) },
		"InTx": func(j *dibs.RawJob) error {
			return t.db.InTx(t.ctx, func(tx dibs.Tx) error { return tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}) })
		},
		"Cancel": func(j *dibs.RawJob) error {
			if err := t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Snooze(time.Hour)}); err != nil {
				return err
			}
			_, _, err := t.db.Cancel(t.ctx, []int64{j.ID})
			return err
		},
	} {
		for round := 1; ; round++ {
			t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
			jobs := t.claim(dibs.ClaimRequest{N: n})
			waits := make([]<-chan waited, n)
			for i, j := range jobs {
				waits[i] = t.waitFor(t.ctx, t.db, j.ID)
			}
			time.Sleep(time.Second)
			quick := 0
			for i, j := range jobs {
				t.must(end(j))
				ended := time.Now()
				w := <-waits[i]
				t.must(w.err)
				if time.Since(ended) < 25*time.Millisecond {
					quick++
				}
			}
			if quick == n {
				break
			}
			if round == rounds {
				t.Fatalf("ends by %s are not seen at once", kind)
			}
		}
	}
}

func waitRetried(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	c := t.waitFor(t.ctx, t.db, id)
	for i, end := range []func(dibs.Lease) dibs.Outcome{
		func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(0, "not yet") },
		func(l dibs.Lease) dibs.Outcome { return l.Snooze(0) },
		dibs.Lease.Release,
	} {
		t.finish(end(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease()))
		t.notYet(c)
		equal(t, "attempt", t.get(id).Attempt, i+1)
	}
	t.finish(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease().Complete(nil))
	t.expectEnd(c, id, dibs.Completed)
}

func waitRequeued(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Die("first"))
	sameIDs(t, "requeued", t.requeue(id), []int64{id})
	c := t.waitFor(t.ctx, t.db, id)
	t.notYet(c)
	t.finish(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease().Complete(nil))
	t.expectEnd(c, id, dibs.Completed)
}

func waitMissing(t *test) {
	live := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	for _, id := range []int64{live + 1, 1 << 60, 0, -1} {
		if w := <-t.waitFor(t.ctx, t.db, id); !errors.Is(w.err, dibs.ErrNotFound) || w.job != nil {
			t.Errorf("Wait(%d) gave %v, %v, want ErrNotFound", id, w.job, w.err)
		}
	}
	err := t.db.InTx(t.ctx, func(tx dibs.Tx) error {
		id := t.enqueueOn(tx, dibs.NewJob{Kind: "k"})[0]
		if w := <-t.waitFor(t.ctx, t.Another(t), id); !errors.Is(w.err, dibs.ErrNotFound) {
			t.Errorf("waiting for a job whose transaction is open gave %v", w.err)
		}
		return nil
	})
	t.must(err)
}

func waitUnkept(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(time.Duration)})
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	here, there := t.waitFor(t.ctx, t.db, id), t.waitFor(t.ctx, t.Another(t), id)
	t.notYet(here)
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Complete(nil))
	for _, c := range []<-chan waited{here, there} {
		if w := <-c; !errors.Is(w.err, dibs.ErrNotFound) {
			t.Errorf("Wait gave %v, %v, want ErrNotFound", w.job, w.err)
		}
	}
}

// The job is gone when the other process looks again, unless it looks in between.
func waitPruned(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	c := t.waitFor(t.ctx, t.Another(t), id)
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Complete(nil))
	t.waitUntil("the job is pruned", func() bool {
		_, err := t.db.Prune(t.ctx, "", "", 0)
		t.must(err)
		_, err = t.db.Get(t.ctx, id)
		return errors.Is(err, dibs.ErrNotFound)
	})
	if w := <-c; !errors.Is(w.err, dibs.ErrNotFound) && (w.err != nil || w.job.State != dibs.Completed) {
		t.Errorf("Wait gave %v, %v", w.job, w.err)
	}
}

func waitPaused(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(true)})
	c := t.waitFor(t.ctx, t.db, id)
	t.notYet(c)
	t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(false)})
	t.finish(t.claimSoon(dibs.ClaimRequest{}, 1)[0].Lease().Complete(nil))
	t.expectEnd(c, id, dibs.Completed)
}

func waitContext(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	ctx, cancel := context.WithCancel(t.ctx)
	soon, cancelSoon := context.WithTimeout(t.ctx, time.Millisecond)
	defer cancelSoon()
	gone, stays := t.waitFor(ctx, t.db, id), t.waitFor(t.ctx, t.db, id)
	if w := <-t.waitFor(soon, t.db, id); !errors.Is(w.err, context.DeadlineExceeded) {
		t.Errorf("Wait gave %v, want DeadlineExceeded", w.err)
	}
	cancel()
	if w := <-gone; !errors.Is(w.err, context.Canceled) {
		t.Errorf("Wait gave %v, want Canceled", w.err)
	}
	if w := <-t.waitFor(ctx, t.db, id); !errors.Is(w.err, context.Canceled) {
		t.Errorf("Wait with an ended context gave %v", w.err)
	}
	t.notYet(stays)
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Complete(nil))
	t.expectEnd(stays, id, dibs.Completed)
}

func waitClosed(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	db := t.Another(t)
	var waits []<-chan waited
	for range 20 {
		waits = append(waits, t.waitFor(t.ctx, db, id))
	}
	t.must(db.Close())
	for _, c := range append(waits, t.waitFor(t.ctx, db, id)) {
		if w := <-c; !errors.Is(w.err, dibs.ErrClosed) {
			t.Errorf("Wait gave %v, %v, want ErrClosed", w.job, w.err)
		}
	}
}

func waitExpired(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 1})[0]
	c := t.waitFor(t.ctx, t.db, id)
	t.expire(t.claimOne(dibs.ClaimRequest{}))
	t.sweep()
	t.expectEnd(c, id, dibs.Dead)
}

func waitTx(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	j := t.claimOne(dibs.ClaimRequest{})
	c := t.waitFor(t.ctx, t.db, id)
	undo := errors.New("undo")
	err := t.db.InTx(t.ctx, func(tx dibs.Tx) error {
		t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
		return undo
	})
	equal(t, "error", err, undo)
	t.notYet(c)
	t.must(t.db.InTx(t.ctx, func(tx dibs.Tx) error {
		return tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)})
	}))
	t.expectEnd(c, id, dibs.Completed)
}

func waitMany(t *test) {
	const n = 250 // a look finds 100 jobs
	all := t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	waits := make([]<-chan waited, n)
	for i, id := range all {
		waits[i] = t.waitFor(t.ctx, t.db, id)
	}
	t.finish(outcomes(t.claim(dibs.ClaimRequest{N: n}), completed)...)
	for i, c := range waits {
		w := <-c
		t.must(w.err)
		equal(t, "job", w.job.ID, all[i])
	}
}

// Each handler of the first queue enqueues a job into the second, and waits for it in place of
// using a transaction or a connection of its own.
func waitInHandlers(t *test) {
	const n = 30
	ctx, stop := context.WithCancel(t.ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	work := func(queue string, handler dibs.Handler) {
		w := &dibs.Worker{Store: t.db, Queue: queue, Concurrency: n}
		w.HandleRaw("", handler)
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	work("second", func(_ context.Context, job *dibs.RawJob) error { return job.SetResult(fmt.Sprint("of ", job.ID)) })
	work("first", func(ctx context.Context, job *dibs.RawJob) error {
		done, err := t.db.Enqueue(ctx, []dibs.NewJob{{Queue: "second", Kind: "k"}})
		if err != nil {
			return err
		}
		sub, err := t.db.Wait(ctx, done[0].ID)
		if err != nil {
			return err
		}
		return job.SetResult(sub.Result)
	})
	for _, id := range t.enqueue(copies(n, dibs.NewJob{Queue: "first", Kind: "k"})...) {
		j, err := t.db.Wait(t.ctx, id)
		t.must(err)
		equal(t, "state", j.State, dibs.Completed)
		if len(j.Result) == 0 {
			t.Fatalf("job %d has no result", id)
		}
	}
}
