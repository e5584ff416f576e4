package storetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var closeCases = []oneCase{
	{"calls after Close fail", closedFails},
	{"Close can be called again, and while calls are under way", closedTwice},
	{"what a closed store enqueued and claimed stays", closedStays},
	{"a call whose context has ended does nothing", endedContext},
	{"a call that is cut off did all or nothing", cutOff},
	{"calls return when their context ends", contextEnds},
}

// everyCall returns a call of each method of a store, with valid input.
func everyCall(ctx context.Context, db admin.Database, j *dibs.RawJob) map[string]func() error {
	return map[string]func() error{
		"Enqueue": func() error { _, err := db.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}}); return err },
		"Claim":   func() error { _, err := db.Claim(ctx, dibs.ClaimRequest{N: 1, Worker: "w"}); return err },
		"Due":     func() error { _, err := db.Due(ctx, []string{"q"}, nil); return err },
		"Extend":  func() error { _, err := db.Extend(ctx, []dibs.Lease{j.Lease()}, 2*time.Hour); return err },
		"Finish":  func() error { return db.Finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)}) },
		"Resume":  func() error { _, err := db.Resume(ctx, dibs.ClaimRequest{Worker: "w"}); return err },
		"Sweep":   func() error { _, err := db.Sweep(ctx); return err },
		"Get":     func() error { _, err := db.Get(ctx, j.ID); return err },
		"Wait":    func() error { return waitBriefly(ctx, db, j.ID) },
		"List":    func() error { _, err := db.List(ctx, admin.Filter{}); return err },
		"Cancel":  func() error { _, _, err := db.Cancel(ctx, []int64{j.ID}); return err },
		"Requeue": func() error { _, err := db.Requeue(ctx, []int64{j.ID}, time.Time{}); return err },
		"Edit":    func() error { _, err := db.Edit(ctx, []int64{j.ID}, admin.Edit{Priority: new(1)}); return err },
		"Prune":   func() error { _, err := db.Prune(ctx, "", "", 0); return err },
		"Queues":  func() error { _, err := db.Queues(ctx); return err },
		"ChangeQueue": func() error {
			_, err := db.ChangeQueue(ctx, "q", func(*dibs.Queue) error { return nil })
			return err
		},
		"DeleteQueue": func() error { return db.DeleteQueue(ctx, "q", true) },
		"ChangeGroup": func() error {
			return db.ChangeGroup(ctx, dibs.DefaultQueue, "g", func(*dibs.Group) error { return nil })
		},
		"Stats":      func() error { _, err := db.Stats(ctx); return err },
		"Changes":    func() error { _, err := db.Changes(ctx, 1); return err },
		"NoteChange": func() error { return db.NoteChange(ctx, admin.Change{Did: "x"}) },
		"Workers":    func() error { _, err := db.Workers(ctx); return err },
		"DueKinds":   func() error { _, err := db.DueKinds(ctx, "q"); return err },
		"Followers":  func() error { _, err := db.Followers(ctx, "q"); return err },
		"Flow":       func() error { _, err := db.Flow(ctx, 1, 0); return err },
		"FlowJobs":   func() error { _, err := db.FlowJobs(ctx, 1, "", 0); return err },
		"Register":   func() error { return db.Register(ctx, anEntry("w")) },
		"Schedules":  func() error { _, err := db.Schedules(ctx); return err },
		"SetSchedule": func() error {
			_, err := db.SetSchedule(ctx, dibs.Schedule{Name: "s", Spec: "@yearly", Kind: "k"})
			return err
		},
		"SetSchedules": func() error { return db.SetSchedules(ctx, "owner", nil) },
		"NextTicks":    func() error { _, err := db.NextTicks(ctx, dibs.Schedule{Spec: "@yearly"}, 1); return err },
		"ChangeSchedule": func() error {
			_, err := db.ChangeSchedule(ctx, "s", func(*dibs.Schedule) error { return nil })
			return err
		},
		"RunSchedule":    func() error { _, err := db.RunSchedule(ctx, "s"); return err },
		"DeleteSchedule": func() error { return db.DeleteSchedule(ctx, "s") },
		"Check":          func() error { _, err := db.Check(ctx); return err },
		"InTx":           func() error { return db.InTx(ctx, func(dibs.Tx) error { return nil }) },
	}
}

// waitBriefly is Wait, for no longer than a moment.
func waitBriefly(ctx context.Context, db admin.Database, id int64) error {
	if ctx != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
	}
	_, err := db.Wait(ctx, id)
	return err
}

// onePrefix expects an error to contain the prefix "dibs: " at most once.
func onePrefix(t *test, name string, err error) {
	t.Helper()
	if n := strings.Count(err.Error(), "dibs: "); n > 1 {
		t.Errorf("%s gave an error that names dibs %d times: %v", name, n, err)
	}
}

// Refused expects each call on a database that does not answer, or refuses everything, to
// return an error with one prefix.
func Refused(t *testing.T, db admin.Database) {
	t.Helper()
	j := &dibs.RawJob{ID: 1, Token: dibs.Token{1}}
	in := &test{T: t}
	for name, call := range everyCall(t.Context(), db, j) {
		err := call()
		if err == nil {
			t.Errorf("%s gave no error", name)
			continue
		}
		onePrefix(in, name, err)
	}
}

// expectFailures expects each call on db to fail and to change nothing.
func (t *test) expectFailures(ctx context.Context, db admin.Database) {
	t.Helper()
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	j := t.claimOne(dibs.ClaimRequest{Worker: "w"})
	for name, call := range everyCall(ctx, db, j) {
		err := call()
		if err == nil || errors.Is(err, dibs.ErrLeaseLost) || errors.Is(err, dibs.ErrNotFound) {
			t.Fatalf("%s gave error %v", name, err)
		}
		onePrefix(t, name, err)
	}
	sameJob(t, t.get(j.ID), j)
	equal(t, "jobs", len(t.list(admin.Filter{})), 2)
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "queues", queues, []dibs.Queue{dibs.DefaultSettings(dibs.DefaultQueue)})
}

func closedFails(t *test) {
	closed := t.Another(t)
	wake, stop := closed.Wakeups("q")
	t.must(closed.Close())
	t.expectFailures(t.ctx, closed)
	closed.Wake("q")
	select {
	case <-wake: // a last wake-up, or a closed channel, is allowed
	default:
	}
	stop()
	_, stop = closed.Wakeups("q")
	stop()
}

func closedTwice(t *test) {
	db := t.Another(t)
	t.enqueue(copies(500, dibs.NewJob{Kind: "k"})...)
	var claimed atomic.Int64
	warm := make(chan struct{}, 1000)
	t.runAtOnce(4, func(i int) error {
		if i == 0 {
			for range 10 {
				<-warm
			}
			return db.Close()
		}
		for {
			jobs, err := db.Claim(t.ctx, dibs.ClaimRequest{N: 1, Worker: "w", Lease: time.Hour})
			warm <- struct{}{}
			if err != nil {
				return nil // the store is closed
			}
			if len(jobs) == 0 {
				return errors.New("the store was not closed")
			}
			claimed.Add(1)
		}
	})
	_ = db.Close() // it may return an error, but it must return
	if running := t.stats(dibs.DefaultQueue).Running; running < claimed.Load() {
		t.Fatalf("%d jobs run, %d were claimed", running, claimed.Load())
	}
}

func closedStays(t *test) {
	db := t.Another(t)
	all := t.enqueueOn(db, copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claimOn(db, dibs.ClaimRequest{N: 2})
	t.must(db.Close())
	t.inState(dibs.Running, all[:2]...)
	t.claimExactly("the rest", all[2:]...)
	t.complete(jobs...)
}

func endedContext(t *test) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	t.expectFailures(ctx, t.db)
}

func cutOff(t *test) {
	const size = 200
	r := t.random()
	succeeded := 0
	for range 20 {
		ctx, cancel := context.WithTimeout(t.ctx, time.Duration(r.IntN(8000))*time.Microsecond)
		_, err := t.db.Enqueue(ctx, copies(size, dibs.NewJob{Kind: "k"}))
		cancel()
		if err == nil {
			succeeded++
		}
	}
	n := len(t.listPaged(admin.Filter{Limit: 1000}, func() {}))
	if n%size != 0 || n < succeeded*size {
		t.Fatalf("%d jobs are there of 20 batches of %d, of which %d were reported", n, size, succeeded)
	}
}

// A call that must wait for a writer's open transaction gives up with its context.
func contextEnds(t *test) {
	t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	j := t.claimOne(dibs.ClaimRequest{})
	tx := t.beginTx()
	t.enqueueOn(tx, dibs.NewJob{Kind: "k"})
	t.must(tx.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
	ctx, cancel := context.WithTimeout(t.ctx, 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	for name, call := range everyCall(ctx, t.db, j) {
		if name == "Check" {
			continue // it reads the whole database, which may take longer
		}
		_ = call() // it may succeed if it need not wait
		if took := time.Since(start); took > 10*time.Second {
			t.Fatalf("%s returned %v after the start of a context of 200ms", name, took)
		}
	}
	t.must(tx.Rollback())
}
