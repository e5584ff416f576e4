package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Wake-ups are hints. All other chapters show that jobs are found without them.
var wakeCases = []oneCase{
	{"what this process enqueues wakes its waiters", wakeOwn},
	{"every waiter of the queue is woken", wakeAll},
	{"Wake wakes after a commit of the caller's own", wakeByHand},
	{"a transaction wakes the queues that it has enqueued into", wakeByTx},
	{"a finish that makes room wakes", wakeRoom},
	{"what another process enqueues wakes where the database can tell", wakeOthers},
	{"nobody has to listen", wakeNobody},
}

// waitForWake waits for a wake-up.
func (t *test) waitForWake(what string, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-t.ctx.Done():
		t.Fatalf("%s: no wake-up", what)
	}
}

func wakeOwn(t *test) {
	wake, stop := t.db.Wakeups("q")
	defer stop()
	for range 3 {
		t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
		t.waitForWake("after Enqueue", wake)
		sameIDs(t, "claimed from another queue", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
		t.claimOne(dibs.ClaimRequest{Queue: "q"})
	}
}

func wakeAll(t *test) {
	a, stopA := t.db.Wakeups("q")
	defer stopA()
	b, stopB := t.db.Wakeups("q")
	c, stopC := t.db.Wakeups("q")
	defer stopC()
	stopB()
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
	t.waitForWake("the first waiter", a)
	t.waitForWake("the third waiter", c)
	_ = b // its wake-ups were stopped, so nothing is expected
}

func wakeRoom(t *test) {
	t.set("limited", dibs.QueueChange{Concurrency: new(1)})
	for _, queue := range []string{"limited", "grouped"} {
		group := map[string]string{"grouped": "g"}[queue]
		t.enqueue(dibs.NewJob{Queue: queue, Kind: "k", Group: group}, dibs.NewJob{Queue: queue, Kind: "k", Group: group})
		first := t.claimOne(dibs.ClaimRequest{Queue: queue})
		wake, stop := t.db.Wakeups(queue)
		defer stop()
		t.must(t.db.Finish(t.ctx, []dibs.Outcome{first.Lease().Complete(nil)}))
		t.waitForWake("after a Finish in the queue "+queue, wake)
		t.claimOne(dibs.ClaimRequest{Queue: queue})
	}
	waiting := t.enqueue(dibs.NewJob{Queue: "other", Kind: "k", Group: "g"}, dibs.NewJob{Queue: "other", Kind: "k", Group: "g"})
	sameIDs(t, "claimed of an unknown kind", ids(t.claim(dibs.ClaimRequest{Queue: "other", Kinds: []string{"x"}, N: 1})), nil)
	wake, stop := t.db.Wakeups("other")
	defer stop()
	_, _, err := t.db.Cancel(t.ctx, waiting[:1])
	t.must(err)
	t.waitForWake("after a Cancel of the job that holds its group's place", wake)
}

func wakeByHand(t *test) {
	wake, stop := t.db.Wakeups("q")
	defer stop()
	tx := t.beginTx()
	t.enqueueOn(tx, dibs.NewJob{Queue: "q", Kind: "k"})
	t.must(tx.Commit())
	t.db.Wake("q")
	t.waitForWake("after Wake", wake)
	t.claimOne(dibs.ClaimRequest{Queue: "q"})
}

// wakeByTx has transactions wake the queues that they have enqueued into.
func wakeByTx(t *test) {
	enqueued, stop := t.db.Wakeups("q")
	defer stop()
	tx := t.beginTx()
	tx.Wake() // it has enqueued nothing
	t.enqueueOn(tx, dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "other", Kind: "k"})
	t.must(tx.Commit())
	tx.Wake()
	t.waitForWake("after Tx.Wake", enqueued)
	other, stopOther := t.db.Wakeups("other")
	defer stopOther()
	t.must(t.db.InTx(t.ctx, func(tx dibs.Tx) error {
		_, err := tx.Enqueue(t.ctx, []dibs.NewJob{{Queue: "other", Kind: "k"}})
		return err
	}))
	t.waitForWake("after InTx", other)
}

func wakeOthers(t *test) {
	if !t.Notifies {
		t.Skip("other processes poll")
	}
	other := t.Another(t)
	wake, stop := other.Wakeups("q")
	defer stop()
	// The other store needs a moment before it listens.
	t.waitUntil("the other store listens", func() bool {
		t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
		select {
		case <-wake:
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	quiet := func() {
		for {
			select {
			case <-wake: // a wake-up of an earlier enqueue
				continue
			case <-time.After(100 * time.Millisecond):
			}
			return
		}
	}
	quiet()
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
	t.waitForWake("after another store's Enqueue", wake)
	quiet()
	third := t.Another(t)
	_, err := third.Enqueue(t.ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	t.must(err)
	t.must(third.Close())
	select {
	case <-wake:
	case <-time.After(time.Second):
		t.Error("the Enqueue of a store that was closed at once woke nobody")
	}
}

func wakeNobody(t *test) {
	_, stop := t.db.Wakeups("q") // the test never reads these wake-ups
	defer stop()
	for range 100 {
		t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
		t.db.Wake("q")
		t.db.Wake("nobody's")
	}
}
