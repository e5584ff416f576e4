package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
)

var uniqueCases = []oneCase{
	{"a held key inserts nothing and tells its holder", uniqueHeld},
	{"a key twice in a batch is held by the first", uniqueInBatch},
	{"a key is held until its job is finished, through retries too", uniqueFinished},
	{"every final state frees the key", uniqueFreed},
	{"a key until claimed is free from the first claim on", uniqueClaimed},
	{"a key has one holder whichever way it is held", uniqueMixed},
	{"a key belongs to its queue", uniquePerQueue},
	{"of enqueuers at once one inserts and all learn the id", uniqueAtOnce},
	{"crossing batches at once do not wait for each other for ever", uniqueCrossing},
	{"a requeued job takes its key back, or goes without it when it is taken", uniqueRequeue},
	{"an abandoned job that dies frees its key", uniqueLeaseExpired},
	{"a released job that had its key until claimed does not take it back", uniqueReleased},
	{"a requeued job that had its key until claimed does not take it back", uniqueRequeueClaimed},
	{"of requeued jobs with one key the oldest takes it", uniqueRequeueTwo},
}

func keyed(key string) dibs.NewJob { return dibs.NewJob{Kind: "k", UniqueKey: key} }

func keyedUntilClaimed(key string) dibs.NewJob {
	return dibs.NewJob{Kind: "k", UniqueKey: key, UniqueUntil: dibs.UntilClaimed}
}

// existing enqueues a job whose key this job holds.
func (t *test) existing(holder int64, j dibs.NewJob) {
	t.Helper()
	got, err := t.db.Enqueue(t.ctx, []dibs.NewJob{j})
	t.must(err)
	equal(t, "enqueued", got, []dibs.Enqueued{{ID: holder, Existing: true}})
}

func uniqueHeld(t *test) {
	first := keyed("u")
	first.Payload = "first"
	id := t.enqueue(first)[0]
	second := keyed("u")
	second.Payload, second.Priority, second.Kind = "second", new(1), "other"
	t.unchanged(id, func() { t.existing(id, second) })
	equal(t, "jobs", len(t.list(dibs.Filter{})), 1)
	equal(t, "enqueued", t.stats(dibs.DefaultQueue).Enqueued, int64(1))
	t.existing(id, keyedUntilClaimed("u"))
	equal(t, "unique until", t.get(id).UniqueUntil, dibs.UntilFinished)
	t.enqueue(keyed("v"), keyed("U"), keyed("u "), dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k"})
}

func uniqueInBatch(t *test) {
	held := t.enqueue(keyed("held"))[0]
	got, err := t.db.Enqueue(t.ctx, []dibs.NewJob{
		keyed("a"), keyed("held"), {Kind: "k"}, keyed("a"), keyedUntilClaimed("b"), keyed("b"), keyed("a"),
	})
	t.must(err)
	a, free, b := got[0].ID, got[2].ID, got[4].ID
	equal(t, "enqueued", got, []dibs.Enqueued{
		{ID: a}, {ID: held, Existing: true}, {ID: free}, {ID: a, Existing: true}, {ID: b}, {ID: b, Existing: true}, {ID: a, Existing: true},
	})
	if held >= a || a >= free || free >= b {
		t.Fatalf("ids of those that were inserted do not grow: %d, %d, %d, %d", held, a, free, b)
	}
	t.next("each once", held, a, free, b)
}

func uniqueFinished(t *test) {
	id := t.enqueue(keyed("u"))[0]
	for range 3 {
		j := t.claimOne(dibs.ClaimRequest{})
		t.existing(id, keyed("u"))
		t.finish(j.Lease().RetryAfter(0, "e"))
		t.existing(id, keyed("u"))
	}
	j := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	t.lapse(j)
	t.existing(id, keyed("u"))
	t.sweep()
	t.existing(id, keyed("u"))
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Complete(nil))
	t.enqueue(keyed("u"))
}

func uniqueFreed(t *test) {
	holder := t.enqueue(keyed("u"))[0]
	for _, end := range []func(dibs.Lease) dibs.Outcome{
		completed,
		func(l dibs.Lease) dibs.Outcome { return l.Die("e") },
		func(l dibs.Lease) dibs.Outcome { return l.Cancel("e") },
	} {
		t.existing(holder, keyed("u"))
		t.finish(end(t.claimOne(dibs.ClaimRequest{}).Lease()))
		equal(t, "key of the finished job", t.get(holder).UniqueKey, "u")
		holder = t.enqueue(keyed("u"))[0]
	}
	t.cancel(holder)
	t.enqueue(keyed("u"))
}

func uniqueClaimed(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.existing(first, keyedUntilClaimed("u"))
	j := t.claimOne(dibs.ClaimRequest{})
	second := t.enqueue(keyedUntilClaimed("u"))[0]
	t.existing(second, keyedUntilClaimed("u"))
	t.finish(j.Lease().RetryAfter(0, "e"))
	t.existing(second, keyedUntilClaimed("u"))
	t.next("both", second, first)
	t.enqueue(keyedUntilClaimed("u"))
}

func uniqueMixed(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.existing(first, keyed("u"))
	running := t.claimOne(dibs.ClaimRequest{})
	second := t.enqueue(keyed("u"))[0]
	t.existing(second, keyedUntilClaimed("u"))
	t.next("the second", second)
	t.existing(second, keyedUntilClaimed("u"))
	t.complete(running)
	t.existing(second, keyed("u"))
}

func uniquePerQueue(t *test) {
	for _, q := range []string{"a", "b", "c"} {
		j := keyed("u")
		j.Queue = q
		id := t.enqueue(j)[0]
		t.existing(id, j)
	}
}

func uniqueAtOnce(t *test) {
	stores := []dibs.Database{t.db, t.Another(t)}
	const callers, keys = 12, 8
	got := make([][]dibs.Enqueued, callers)
	t.together(callers, func(i int) (err error) {
		var batch []dibs.NewJob
		for k := range keys {
			batch = append(batch, keyed(string(rune('a'+k))), dibs.NewJob{Kind: "free"})
		}
		got[i], err = stores[i%2].Enqueue(t.ctx, batch)
		return err
	})
	for k := range keys {
		inserted := 0
		for i := range got {
			if !got[i][2*k].Existing {
				inserted++
			}
			equal(t, "id", got[i][2*k].ID, got[0][2*k].ID)
		}
		equal(t, "inserted jobs of one key", inserted, 1)
	}
	equal(t, "jobs", len(t.list(dibs.Filter{Limit: 1000})), keys+callers*keys)
}

// Two batches that hold each other's keys in opposite order are the classic deadlock.
func uniqueCrossing(t *test) {
	stores := []dibs.Database{t.db, t.Another(t)}
	const callers, keys = 8, 40
	t.together(callers, func(i int) error {
		batch := make([]dibs.NewJob, keys)
		for k := range keys {
			at := k
			if i%2 == 1 {
				at = keys - 1 - k
			}
			batch[at] = keyed(time.Duration(k).String())
		}
		_, err := stores[i/2%2].Enqueue(t.ctx, batch)
		return err
	})
	equal(t, "jobs", len(t.list(dibs.Filter{Limit: 1000})), keys)
}

func uniqueRequeue(t *test) {
	first := t.enqueue(keyed("u"))[0]
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Die("e"))
	t.requeue(first)
	equal(t, "key", t.get(first).UniqueKey, "u")
	t.existing(first, keyed("u"))
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Die("e"))
	second := t.enqueue(keyed("u"))[0]
	sameIDs(t, "requeued", t.requeue(first), []int64{first})
	t.existing(second, keyed("u"))
	t.in(dibs.Waiting, first, second)
	t.next("both", second, first)
}

func uniqueLeaseExpired(t *test) {
	j := keyed("u")
	j.MaxAttempts = 1
	id := t.enqueue(j)[0]
	t.lapse(t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease}))
	t.sweep()
	t.in(dibs.Dead, id)
	t.enqueue(keyed("u"))
}

func uniqueReleased(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Release())
	second := t.enqueue(keyedUntilClaimed("u"))[0]
	t.next("both", first, second)
}

func uniqueRequeueClaimed(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.complete(t.next("the first", first)...)
	sameIDs(t, "requeued", t.requeue(first), []int64{first})
	t.enqueue(keyed("u"))
}

func uniqueRequeueTwo(t *test) {
	first := t.enqueue(keyed("u"))[0]
	t.complete(t.next("the first", first)...)
	second := t.enqueue(keyed("u"))[0]
	t.complete(t.next("the second", second)...)
	sameIDs(t, "requeued", t.requeue(second, first, second), []int64{first, second})
	t.existing(first, keyed("u"))
}
