package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var deleteQueueCases = []oneCase{
	{"a queue is deleted with its settings, and a later job makes it anew", deleteQueue},
	{"a queue that is needed stays, and the error says by what", deleteNeededQueue},
	{"ended jobs and periods of keys go with a queue only where that is asked for", deleteQueueWithEnded},
	{"another store that knows a deleted queue enqueues, claims and lists as ever", deleteQueueElsewhere},
	{"no job is lost that is enqueued while its queue is deleted", deleteQueueRace},
}

// queueNames lists the queues that a store sees.
func (t *test) queueNames(db admin.Database) (names []string) {
	t.Helper()
	queues, err := db.Queues(t.ctx)
	t.must(err)
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}

// queueStays expects DeleteQueue to refuse with these words.
func (t *test) queueStays(name string, ended bool, words ...string) {
	t.Helper()
	err := t.db.DeleteQueue(t.ctx, name, ended)
	if !errors.Is(err, dibs.ErrQueueInUse) {
		t.Fatalf("deleting %s gave %v, want ErrQueueInUse", name, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

func deleteQueue(t *test) {
	t.set("q", dibs.QueueChange{Concurrency: new(3), Rate: &dibs.Rate{N: 100, Per: time.Second}})
	t.must(t.db.ChangeGroup(t.ctx, "q", "g", dibs.GroupChange{Limit: new(2), Rate: &dibs.Rate{N: 100, Per: time.Second}}.Apply))
	t.set("other", dibs.QueueChange{MaxAttempts: new(3)})
	t.set("q", dibs.QueueChange{KeepCompleted: new(time.Duration(0))})
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k", Group: "g"})
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "q"}).Lease().Complete(nil))
	t.must(t.db.DeleteQueue(t.ctx, "q", false))
	equal(t, "queues", t.queueNames(t.db), []string{"other"})
	stats, err := t.db.Stats(t.ctx)
	t.must(err)
	equal(t, "queues with counts", len(stats), 1)
	if err := t.db.DeleteQueue(t.ctx, "q", false); !errors.Is(err, dibs.ErrUnknownQueue) {
		t.Errorf("deleting it again gave %v", err)
	}
	all := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k", Group: "g"})
	equal(t, "settings", t.set("q", dibs.QueueChange{}), dibs.DefaultSettings("q"))
	groups, err := t.db.Groups(t.ctx, "q")
	t.must(err)
	equal(t, "groups with settings", len(groups), 0)
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 5})), all)
	equal(t, "running", t.stats("q").Running, int64(1))
}

func deleteNeededQueue(t *test) {
	if err := t.db.DeleteQueue(t.ctx, "none", true); !errors.Is(err, dibs.ErrUnknownQueue) {
		t.Errorf("an unknown queue gave %v", err)
	}
	_, err := t.db.SetSchedule(t.ctx, dibs.Schedule{Name: "of none", Spec: "@yearly", Kind: "k", Queue: "none"})
	t.must(err)
	for _, ended := range []bool{true, false} {
		if err := t.db.DeleteQueue(t.ctx, "none", ended); !errors.Is(err, dibs.ErrUnknownQueue) {
			t.Errorf("an unknown queue that a schedule names gave %v", err)
		}
	}
	invalid(t, t.db.DeleteQueue(t.ctx, strings.Repeat("x", 256), false), "queue")
	t.set("q", dibs.QueueChange{GroupLimit: new(1)})
	for _, j := range []dibs.NewJob{{}, {Delay: time.Hour}, {Group: "g"}, {Group: "g"}, {Group: "h", Delay: time.Hour}} {
		j.Queue, j.Kind = "q", "k"
		id := t.enqueue(j)[0]
		t.queueStays("q", true, "has not ended")
		if j.Delay > 0 || j.Group != "" {
			t.cancel(id)
			continue
		}
		running := t.claimOne(dibs.ClaimRequest{Queue: "q"})
		t.queueStays("q", true, "has not ended")
		t.finish(running.Lease().Complete(nil))
	}
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k", Group: "g"}, dibs.NewJob{Queue: "q", Kind: "k", Group: "g"})
	first := t.claimOne(dibs.ClaimRequest{Queue: "q"})
	t.set("q", dibs.QueueChange{Concurrency: new(5)})
	t.queueStays("q", true, "has not ended")
	t.finish(first.Lease().Complete(nil))
	t.queueStays("q", true, "has not ended")
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "q"}).Lease().Complete(nil))

	_, err = t.db.SetSchedule(t.ctx, dibs.Schedule{Name: "nightly", Spec: "@yearly", Kind: "k", Queue: "q"})
	t.must(err)
	worker := anEntry("mailer")
	worker.Queues = []string{"other", "q"}
	t.register(worker)
	kept := len(t.list(admin.Filter{Queue: "q", State: dibs.Completed}))
	t.queueStays("q", true, `the schedule "nightly" enqueues into it`, `the worker "mailer" serves it`)
	equal(t, "ended jobs after a refusal", len(t.list(admin.Filter{Queue: "q", State: dibs.Completed})), kept)
	t.must(t.db.DeleteSchedule(t.ctx, "nightly"))
	t.queueStays("q", true, "mailer")
	worker.State = dibs.WorkerStopped
	t.register(worker)
	t.queueStays("q", false, "ended jobs")
	t.must(t.db.DeleteQueue(t.ctx, "q", true))
}

func deleteQueueWithEnded(t *test) {
	unique := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "order 7", UniqueFor: time.Hour}
	t.enqueue(unique, dibs.NewJob{Queue: "q", Kind: "k"})
	for _, j := range t.claim(dibs.ClaimRequest{Queue: "q", N: 2}) {
		t.finish(j.Lease().Die("x"))
	}
	t.queueStays("q", false, "keeps ended jobs", `key "order 7" is held until`)
	t.prune("q", "", 0)
	t.queueStays("q", false, `key "order 7" is held until`)
	t.must(t.db.DeleteQueue(t.ctx, "q", true))
	equal(t, "queues", len(t.queueNames(t.db)), 0)
	t.enqueue(unique)
	equal(t, "waiting", t.stats("q").Waiting, int64(1))
	equal(t, "dead", t.stats("q").Dead, int64(0))
}

func deleteQueueElsewhere(t *test) {
	other := t.Another(t)
	t.set("q", dibs.QueueChange{KeepCompleted: new(time.Duration(0)), PayloadLimit: new(4)})
	t.enqueueOn(other, dibs.NewJob{Queue: "q", Kind: "k", Group: "g"})
	t.finish(t.claimOn(other, dibs.ClaimRequest{Queue: "q", N: 1})[0].Lease().Complete(nil))
	t.must(t.db.DeleteQueue(t.ctx, "q", false))
	sameIDs(t, "claimed from no queue", ids(t.claimOn(other, dibs.ClaimRequest{Queue: "q", N: 1})), nil)
	equal(t, "queues", len(t.queueNames(other)), 0)
	id := t.enqueueOn(other, dibs.NewJob{Queue: "q", Kind: "k", Group: "g", Payload: []byte(`"long"`)})
	equal(t, "queues after an enqueue", t.queueNames(t.db), []string{"q"})
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{Queue: "q", N: 5})), id)
}

// Each enqueuer waits until its job has ended, so the queue is empty now and then; claimers find every job. It ends after
// some deletions, or jobs: how many deletions succeed depends on the machine.
func deleteQueueRace(t *test) {
	const enqueuers, claimers = 2, 1
	times := int32(raceSize(16))
	var left, deleted atomic.Int32
	left.Store(enqueuers)
	t.runOnStores(enqueuers+claimers+1, func(ctx context.Context, db admin.Database, r *rand.Rand, i int) error {
		switch {
		case i < enqueuers:
			defer left.Add(-1)
			for n := int32(0); deleted.Load() < times && n < 20*times; n++ {
				if err := enqueueAndWait(ctx, db, dibs.NewJob{Queue: "q", Kind: "k", Group: []string{"", "g"}[r.IntN(2)]}); err != nil {
					return err
				}
			}
			return nil
		case i < enqueuers+claimers:
			idle := time.NewTicker(10 * time.Millisecond)
			defer idle.Stop()
			for ; left.Load() > 0; <-idle.C {
				jobs, err := db.Claim(ctx, dibs.ClaimRequest{Queue: "q", N: 10, Worker: "w"})
				if err != nil {
					return err
				}
				if err := complete(ctx, db)(jobs); err != nil {
					return err
				}
			}
			return nil
		}
		for deleted.Load() < times && left.Load() > 0 {
			switch err := db.DeleteQueue(ctx, "q", true); {
			case err == nil:
				deleted.Add(1)
			case !errors.Is(err, dibs.ErrQueueInUse) && !errors.Is(err, dibs.ErrUnknownQueue):
				return err
			default:
				time.Sleep(time.Millisecond) // else the others have little of a small machine
			}
		}
		return nil
	})
}

// enqueueAndWait returns when the job has ended. It may be deleted with its queue then.
func enqueueAndWait(ctx context.Context, db admin.Database, j dibs.NewJob) error {
	done, err := db.Enqueue(ctx, []dibs.NewJob{j})
	if err != nil {
		return err
	}
	if _, err = db.Wait(ctx, done[0].ID); errors.Is(err, dibs.ErrNotFound) {
		return nil
	}
	return err
}
