package storetest

import (
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var queueCases = []oneCase{
	{"a queue that nobody set has the documented settings", queueDefaults},
	{"a change keeps what it does not name", queueChange},
	{"queues are listed by name", queuesByName},
	{"a bad setting changes nothing", queueBadSetting},
	{"a paused queue gives nothing, and takes jobs and outcomes", queuePaused},
	{"pausing takes effect at once in another store", queuePausedElsewhere},
	{"no claim that starts after a pause gets jobs", queuePausedUnderLoad},
	{"one queue's jobs, limits and pauses are no other's", queuesApart},
	{"the payload limit can be changed and is followed at once", queuePayloadLimit},
	{"settings changed together are all changed", queueConcurrentChanges},
}

func queueDefaults(t *test) {
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "queues", queues, []dibs.Queue{dibs.DefaultSettings("q")})
	equal(t, "no change", t.set("new", dibs.QueueChange{}), dibs.DefaultSettings("new"))
}

func queueChange(t *test) {
	want := dibs.Queue{
		Name: "q", Paused: true, Concurrency: 3, GroupLimit: 2, Strict: true, Order: dibs.LIFO, Lease: time.Minute, MaxAttempts: 7,
		Backoff:       dibs.Backoff{Base: time.Minute, Factor: 1.5, Max: time.Hour, Jitter: 0.125},
		KeepCompleted: 0, KeepDead: dibs.MaxDelay, KeepCancelled: 1500 * time.Millisecond, PayloadLimit: dibs.MaxPayloadLimit,
		JobTimeout: 90 * time.Minute, Rate: dibs.Rate{N: 9, Per: time.Minute, Burst: 4}, GroupRate: dibs.Rate{N: 8, Per: time.Hour, Burst: 3},
	}
	for field, value := range reflect.ValueOf(want).Fields() {
		if field.Name != "Name" && value.Equal(reflect.ValueOf(dibs.DefaultSettings("q")).FieldByName(field.Name)) {
			t.Errorf("the setting %s is to have another value than its default here, which shows whether it is stored", field.Name)
		}
	}
	got := t.set("q", dibs.QueueChange{
		Paused: &want.Paused, Concurrency: &want.Concurrency, GroupLimit: &want.GroupLimit, Strict: &want.Strict,
		Order: &want.Order, Lease: &want.Lease, MaxAttempts: &want.MaxAttempts, Backoff: &want.Backoff,
		KeepCompleted: &want.KeepCompleted, KeepDead: &want.KeepDead, KeepCancelled: &want.KeepCancelled, PayloadLimit: &want.PayloadLimit,
		JobTimeout: &want.JobTimeout, Rate: &want.Rate, GroupRate: &want.GroupRate,
	})
	equal(t, "all changed", got, want)
	equal(t, "nothing changed", t.set("q", dibs.QueueChange{}), want)
	want.Paused, want.Concurrency = false, 0
	equal(t, "two changed", t.set("q", dibs.QueueChange{Paused: new(false), Concurrency: new(0)}), want)
	queues, err := t.Another(t).Queues(t.ctx)
	t.must(err)
	equal(t, "seen by another store", queues, []dibs.Queue{want})
	want.Lease = time.Second + time.Microsecond
	equal(t, "what no database keeps", t.set("q", dibs.QueueChange{Lease: new(want.Lease + 1)}), want)
}

func queuesByName(t *test) {
	for _, q := range []string{"m", "a", "z", "b c"} {
		t.enqueue(dibs.NewJob{Queue: q, Kind: "k"})
	}
	t.set("n", dibs.QueueChange{})
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	stats, err := t.db.Stats(t.ctx)
	t.must(err)
	var names, counted []string
	for i := range queues {
		names = append(names, queues[i].Name)
		counted = append(counted, stats[i].Queue)
	}
	equal(t, "queues", names, []string{"a", "b c", "m", "n", "z"})
	some, err := t.db.Queues(t.ctx, "z", "none", "a", "z", strings.Repeat("x", 300), "", "a\x00b", "\xff")
	t.must(err)
	var found []string
	for _, q := range some {
		found = append(found, q.Name)
	}
	equal(t, "queues of some names", found, []string{"a", "z"})
	equal(t, "statistics", counted, names)
}

func queueBadSetting(t *test) {
	before := t.set("q", dibs.QueueChange{MaxAttempts: new(9)})
	_, err := t.db.ChangeQueue(t.ctx, "q", dibs.QueueChange{MaxAttempts: new(5), GroupLimit: new(0)}.Apply)
	invalid(t, err, "group_limit")
	equal(t, "settings", t.set("q", dibs.QueueChange{}), before)
	_, err = t.db.ChangeQueue(t.ctx, "new", dibs.QueueChange{Concurrency: new(-1)}.Apply)
	invalid(t, err, "concurrency")
	queues, err := t.db.Queues(t.ctx)
	t.must(err)
	equal(t, "queues", len(queues), 1)
}

func queuePaused(t *test) {
	t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	j := t.claimOne(dibs.ClaimRequest{})
	t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(true)})
	t.claimExactly("while paused")
	t.enqueue(dibs.NewJob{Kind: "k"})
	t.extendAll(time.Hour, j.Lease())
	t.finish(j.Lease().Complete(nil))
	equal(t, "paused", t.stats(dibs.DefaultQueue).Paused, true)
	t.claimExactly("still paused")
	t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(false)})
	equal(t, "claimed", len(t.claim(dibs.ClaimRequest{N: 5})), 3)
}

func queuePausedElsewhere(t *test) {
	other := t.Another(t)
	all := t.enqueue(copies(5, dibs.NewJob{Kind: "k"})...)
	for i := range 4 {
		sameIDs(t, "claimed", ids(t.claimOn(other, dibs.ClaimRequest{N: 1})), all[i:i+1])
		t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(true)})
		sameIDs(t, "claimed while paused", ids(t.claimOn(other, dibs.ClaimRequest{N: 1})), nil)
		t.set(dibs.DefaultQueue, dibs.QueueChange{Paused: new(false)})
	}
}

func queuePausedUnderLoad(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	t.enqueue(copies(2000, dibs.NewJob{Kind: "k"})...)
	var paused, stop atomic.Bool
	warm := make(chan struct{}, 2000)
	claim := func(db admin.Database) error {
		before := paused.Load()
		jobs, err := db.Claim(t.ctx, dibs.ClaimRequest{N: 1, Worker: "w"})
		if before && len(jobs) > 0 {
			return errors.New("a claim that started after the pause got a job")
		}
		for range jobs {
			warm <- struct{}{}
		}
		return err
	}
	t.runAtOnce(5, func(i int) error {
		if i < 4 {
			for !stop.Load() {
				if err := claim(stores[i%2]); err != nil {
					return err
				}
			}
			return nil
		}
		defer stop.Store(true)
		for range 50 {
			<-warm
		}
		_, err := t.db.ChangeQueue(t.ctx, dibs.DefaultQueue, dibs.QueueChange{Paused: new(true)}.Apply)
		paused.Store(true)
		for range 10 {
			err = errors.Join(err, claim(stores[1]))
		}
		return err
	})
}

func queuesApart(t *test) {
	for _, q := range []string{"a", "b"} {
		t.enqueue(copies(3, dibs.NewJob{Queue: q, Kind: "k"})...)
	}
	t.set("a", dibs.QueueChange{Paused: new(true), Concurrency: new(1)})
	equal(t, "of a", len(t.claim(dibs.ClaimRequest{Queue: "a", N: 5})), 0)
	equal(t, "of b", len(t.claim(dibs.ClaimRequest{Queue: "b", N: 5})), 3)
	s := t.stats("a")
	equal(t, "waiting and running of a", []int64{s.Waiting, s.Running}, []int64{3, 0})
}

func queuePayloadLimit(t *test) {
	other := t.Another(t)
	job := dibs.NewJob{Queue: "q", Kind: "k", Payload: []byte(`"12345678"`)}
	t.enqueueOn(other, job)
	t.set("q", dibs.QueueChange{PayloadLimit: new(9)})
	for _, db := range []admin.Database{t.db, other} {
		_, err := db.Enqueue(t.ctx, []dibs.NewJob{job})
		invalid(t, err, "jobs[0].payload")
	}
	t.set("q", dibs.QueueChange{PayloadLimit: new(10)})
	t.enqueue(job)
	t.enqueueOn(other, job)
	big := []byte(`"` + strings.Repeat("x", dibs.MaxPayload) + `"`)
	t.set("q", dibs.QueueChange{PayloadLimit: new(2 * dibs.MaxPayload)})
	id := t.enqueueOn(other, dibs.NewJob{Queue: "q", Kind: "k", Payload: big})[0]
	equal(t, "payload bytes", len(t.get(id).Payload), len(big))
}

func queueConcurrentChanges(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	changes := []dibs.QueueChange{
		{MaxAttempts: new(3)}, {Lease: new(time.Minute)}, {GroupLimit: new(4)}, {Strict: new(true)}, {Concurrency: new(9)}, {Order: new(dibs.LIFO)},
	}
	t.runAtOnce(len(changes), func(i int) error {
		_, err := stores[i%2].ChangeQueue(t.ctx, "q", changes[i].Apply)
		return err
	})
	want := dibs.DefaultSettings("q")
	want.MaxAttempts, want.Lease, want.GroupLimit, want.Strict, want.Concurrency, want.Order = 3, time.Minute, 4, true, 9, dibs.LIFO
	equal(t, "settings", t.set("q", dibs.QueueChange{}), want)
}
