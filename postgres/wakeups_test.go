package postgres_test

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// awaitWakeup waits for a wakeup.
func (b bench) awaitWakeup(wake <-chan struct{}) {
	b.Helper()
	select {
	case <-wake:
	case <-b.ctx.Done():
		b.Fatal("no wake-up")
	}
}

// openAnother opens a second store on the database, as another process does.
func (b bench) openAnother() *postgres.Store {
	b.Helper()
	s, err := postgres.Open(b.ctx, b.pool.Config().ConnString(), postgres.Options{})
	b.must(err)
	b.Cleanup(func() { _ = s.Close() }) // nothing is left to write
	return s
}

// awaitListening waits until the store receives from's notifications about the queue.
func (b bench) awaitListening(wake <-chan struct{}, from *postgres.Store, queue string) {
	b.Helper()
	for heard := false; !heard; {
		from.Wake(queue)
		select {
		case <-wake:
			heard = true
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A store wakes its own waiters directly: its NOTIFY does not wake them again.
func TestAStoreDoesNotHearItself(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other := b.openAnother()
	wake, stop := b.Wakeups("q")
	defer stop()
	fromOther, stopFromOther := b.Wakeups("from another")
	defer stopFromOther()
	atOther, stopAtOther := other.Wakeups("q")
	defer stopAtOther()
	b.awaitListening(fromOther, other, "from another")
	b.awaitListening(atOther, b.Store, "q")
	for len(wake) > 0 {
		<-wake
	}
	b.Wake("q")
	b.awaitWakeup(wake)
	b.awaitWakeup(atOther)
	for len(fromOther) > 0 {
		<-fromOther
	}
	other.Wake("from another")
	b.awaitWakeup(fromOther) // notifications arrive in their order
	if len(wake) > 0 {
		t.Error("the store woke its waiters twice")
	}
}

// While another transaction is notifying other processes, an enqueue does not wait for it, and
// other processes are notified of its jobs all the same.
func TestAnEnqueueThatMayNotTellIsToldLater(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other := b.openAnother()
	wake, stop := other.Wakeups("q")
	defer stop()
	b.awaitListening(wake, b.Store, "q")
	_, err := b.begin().Exec(b.ctx, "select pg_advisory_xact_lock($1)", b.TellLock())
	b.must(err)
	heard := 0
	for range 20 { // on a slow machine one notification may be lost
		for quiet := false; !quiet; { // an enqueue notifies at most once a millisecond
			select {
			case <-wake: // a wake-up by an earlier enqueue
			case <-time.After(50 * time.Millisecond):
				quiet = true
			}
		}
		b.add("")
		select {
		case <-wake:
			heard++
		case <-time.After(2 * time.Second):
		}
		if heard == 5 { // a wake-up of an earlier enqueue may be very late, but not five
			return
		}
	}
	t.Errorf("other processes heard of %d of 20 jobs only", heard)
}

// Every process is woken for the room that a finished job leaves.
func TestOthersHearOfRoom(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other := b.openAnother()
	wake, stop := other.Wakeups("q")
	defer stop()
	b.awaitListening(wake, b.Store, "q")
	b.add("g", "g", "g")
	b.awaitWakeup(wake)
	for range 3 {
		job := b.take(1, 0)[0]
		for len(wake) > 0 {
			<-wake
		}
		b.must(b.Finish(b.ctx, []dibs.Outcome{job.Lease().Complete(nil)}))
		b.awaitWakeup(wake)
	}
}

// A claim that does not get the turn is made again, although no wakeup tells when the turn
// is free.
func TestAClaimThatIsTurnedAwayIsMadeAgain(t *testing.T) {
	for _, queue := range []string{"grouped", "limited"} {
		t.Run(queue, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			job := dibs.NewJob{Queue: queue, Kind: "k"}
			if queue == "grouped" {
				job.Group = "g"
			} else {
				_, err := b.ChangeQueue(b.ctx, queue, dibs.QueueChange{Concurrency: new(5)}.Apply)
				b.must(err)
			}
			_, err := b.Enqueue(b.ctx, []dibs.NewJob{job})
			b.must(err)
			tx := b.begin()
			if queue == "grouped" {
				_, err = tx.Exec(b.ctx, "select pg_advisory_xact_lock($1)", b.AdmitKey(queue))
			} else {
				_, err = tx.Exec(b.ctx, "select from dibs.turn where queue = $1 for update", queue)
			}
			b.must(err)
			wake, stop := b.Wakeups(queue)
			defer stop()
			for range 3 {
				jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: 1, Lease: time.Hour})
				b.must(err)
				if len(jobs) > 0 {
					t.Fatalf("claimed %v in another's turn", ids(jobs))
				}
				b.awaitWakeup(wake)
			}
			b.must(tx.Rollback(b.ctx))
			jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: 1, Lease: time.Hour})
			b.must(err)
			if len(jobs) != 1 {
				t.Errorf("claimed %v", ids(jobs))
			}
		})
	}
}
