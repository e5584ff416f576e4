package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
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

// enqueueDuplicate enqueues a job whose unique key the holder has.
func (t *test) enqueueDuplicate(holder int64, j dibs.NewJob) {
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
	t.expectUnchanged(id, func() { t.enqueueDuplicate(id, second) })
	equal(t, "jobs", len(t.list(admin.Filter{})), 1)
	equal(t, "enqueued", t.stats(dibs.DefaultQueue).Enqueued, int64(1))
	t.enqueueDuplicate(id, keyedUntilClaimed("u"))
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
		t.Fatalf("the ids of inserted jobs do not grow: %d, %d, %d, %d", held, a, free, b)
	}
	t.claimExactly("each once", held, a, free, b)
}

func uniqueFinished(t *test) {
	id := t.enqueue(keyed("u"))[0]
	for range 3 {
		j := t.claimOne(dibs.ClaimRequest{})
		t.enqueueDuplicate(id, keyed("u"))
		t.finish(j.Lease().RetryAfter(0, "e"))
		t.enqueueDuplicate(id, keyed("u"))
	}
	j := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	t.waitForExpiry(j)
	t.enqueueDuplicate(id, keyed("u"))
	t.sweep()
	t.enqueueDuplicate(id, keyed("u"))
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
		t.enqueueDuplicate(holder, keyed("u"))
		t.finish(end(t.claimOne(dibs.ClaimRequest{}).Lease()))
		equal(t, "key of the finished job", t.get(holder).UniqueKey, "u")
		holder = t.enqueue(keyed("u"))[0]
	}
	t.cancel(holder)
	t.enqueue(keyed("u"))
}

func uniqueClaimed(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.enqueueDuplicate(first, keyedUntilClaimed("u"))
	j := t.claimOne(dibs.ClaimRequest{})
	equal(t, "key that the running job no longer holds", t.get(first).UniqueKey, "")
	second := t.enqueue(keyedUntilClaimed("u"))[0]
	equal(t, "key of its holder", t.get(second).UniqueKey, "u")
	t.enqueueDuplicate(second, keyedUntilClaimed("u"))
	t.finish(j.Lease().RetryAfter(0, "e"))
	t.enqueueDuplicate(second, keyedUntilClaimed("u"))
	t.claimExactly("both", second, first)
	t.enqueue(keyedUntilClaimed("u"))
}

func uniqueMixed(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.enqueueDuplicate(first, keyed("u"))
	running := t.claimOne(dibs.ClaimRequest{})
	second := t.enqueue(keyed("u"))[0]
	t.enqueueDuplicate(second, keyedUntilClaimed("u"))
	t.claimExactly("the second", second)
	t.enqueueDuplicate(second, keyedUntilClaimed("u"))
	t.complete(running)
	t.enqueueDuplicate(second, keyed("u"))
}

func uniquePerQueue(t *test) {
	for _, q := range []string{"a", "b", "c"} {
		j := keyed("u")
		j.Queue = q
		id := t.enqueue(j)[0]
		t.enqueueDuplicate(id, j)
	}
}

func uniqueAtOnce(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const callers, keys = 12, 8
	got := make([][]dibs.Enqueued, callers)
	t.runAtOnce(callers, func(i int) (err error) {
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
	equal(t, "jobs", len(t.list(admin.Filter{Limit: 1000})), keys+callers*keys)
}

// Two batches that insert the same keys in opposite orders are the classic deadlock.
func uniqueCrossing(t *test) {
	stores := []admin.Database{t.db, t.Another(t)}
	const callers, keys = 8, 40
	t.runAtOnce(callers, func(i int) error {
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
	equal(t, "jobs", len(t.list(admin.Filter{Limit: 1000})), keys)
}

func uniqueRequeue(t *test) {
	first := t.enqueue(keyed("u"))[0]
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Die("e"))
	t.requeue(first)
	equal(t, "key", t.get(first).UniqueKey, "u")
	t.enqueueDuplicate(first, keyed("u"))
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Die("e"))
	second := t.enqueue(keyed("u"))[0]
	sameIDs(t, "requeued", t.requeue(first), []int64{first})
	t.enqueueDuplicate(second, keyed("u"))
	t.inState(dibs.Waiting, first, second)
	t.claimExactly("both", second, first)
}

func uniqueLeaseExpired(t *test) {
	j := keyed("u")
	j.MaxAttempts = 1
	id := t.enqueue(j)[0]
	t.waitForExpiry(t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease}))
	t.sweep()
	t.inState(dibs.Dead, id)
	t.enqueue(keyed("u"))
}

func uniqueReleased(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.finish(t.claimOne(dibs.ClaimRequest{}).Lease().Release())
	second := t.enqueue(keyedUntilClaimed("u"))[0]
	t.claimExactly("both", first, second)
}

func uniqueRequeueClaimed(t *test) {
	first := t.enqueue(keyedUntilClaimed("u"))[0]
	t.complete(t.claimExactly("the first", first)...)
	sameIDs(t, "requeued", t.requeue(first), []int64{first})
	t.enqueue(keyed("u"))
}

func uniqueRequeueTwo(t *test) {
	first := t.enqueue(keyed("u"))[0]
	t.complete(t.claimExactly("the first", first)...)
	second := t.enqueue(keyed("u"))[0]
	t.complete(t.claimExactly("the second", second)...)
	sameIDs(t, "requeued", t.requeue(second, first, second), []int64{first, second})
	t.enqueueDuplicate(first, keyed("u"))
}
