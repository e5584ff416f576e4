package postgres_test

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// heard waits for a wake-up.
func (b bench) heard(wake <-chan struct{}) {
	b.Helper()
	select {
	case <-wake:
	case <-b.ctx.Done():
		b.Fatal("no wake-up")
	}
}

// another opens the database a second time, as another process does.
func (b bench) another() *postgres.Store {
	b.Helper()
	s, err := postgres.Open(b.ctx, b.pool.Config().ConnString(), postgres.Options{})
	b.must(err)
	b.Cleanup(func() { _ = s.Close() }) // nothing is left to write
	return s
}

// listens waits until the store hears what from says about the queue.
func (b bench) listens(wake <-chan struct{}, from *postgres.Store, queue string) {
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

// A store wakes its own waiters itself: what it tells others does not wake them again.
func TestAStoreDoesNotHearItself(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other := b.another()
	wake, stop := b.Wakeups("q")
	defer stop()
	fromOther, stopFromOther := b.Wakeups("from another")
	defer stopFromOther()
	atOther, stopAtOther := other.Wakeups("q")
	defer stopAtOther()
	b.listens(fromOther, other, "from another")
	b.listens(atOther, b.Store, "q")
	for len(wake) > 0 {
		<-wake
	}
	b.Wake("q")
	b.heard(wake)
	b.heard(atOther)
	for len(fromOther) > 0 {
		<-fromOther
	}
	other.Wake("from another")
	b.heard(fromOther) // notifications come in their order
	if len(wake) > 0 {
		t.Error("the store woke its waiters twice")
	}
}

// Room that a finished job leaves is for every process.
func TestOthersHearOfRoom(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other := b.another()
	wake, stop := other.Wakeups("q")
	defer stop()
	b.listens(wake, b.Store, "q")
	b.add("g", "g", "g")
	b.heard(wake)
	for range 3 {
		job := b.take(1, 0)[0]
		for len(wake) > 0 {
			<-wake
		}
		b.must(b.Finish(b.ctx, []dibs.Outcome{job.Lease().Complete(nil)}))
		b.heard(wake)
	}
}

// A claim that finds another process at it is made again, though nobody tells when that
// one is done.
func TestAClaimThatIsTurnedAwayIsMadeAgain(t *testing.T) {
	for _, queue := range []string{"grouped", "limited"} {
		t.Run(queue, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			job := dibs.NewJob{Queue: queue, Kind: "k"}
			if queue == "grouped" {
				job.Group = "g"
			} else {
				_, err := b.SetQueue(b.ctx, queue, dibs.QueueChange{Concurrency: new(5)})
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
				jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: 1})
				b.must(err)
				if len(jobs) > 0 {
					t.Fatalf("claimed %v in another's turn", ids(jobs))
				}
				b.heard(wake)
			}
			b.must(tx.Rollback(b.ctx))
			jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: 1})
			b.must(err)
			if len(jobs) != 1 {
				t.Errorf("claimed %v", ids(jobs))
			}
		})
	}
}
