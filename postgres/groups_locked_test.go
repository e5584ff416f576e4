package postgres_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// A transaction that stays open and has changed one waiting job of a group holds up that job only. When it has ended, that
// job starts, too.
func TestALockedJobDoesNotHoldUpItsGroup(t *testing.T) {
	for how, end := range map[string]func(b bench, tx pgx.Tx) error{
		"committed":   func(b bench, tx pgx.Tx) error { return tx.Commit(b.ctx) },
		"rolled back": func(b bench, tx pgx.Tx) error { return tx.Rollback(b.ctx) },
	} {
		t.Run("until its transaction is "+how, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			b.change(dibs.QueueChange{GroupLimit: new(5)})
			replaced := dibs.NewJob{Queue: "q", Kind: "k", Group: "g", UniqueKey: "u", IfHeld: dibs.HeldReplace}
			_, err := b.Enqueue(b.ctx, []dibs.NewJob{replaced})
			b.must(err)
			others := b.add("g", "g", "g")
			tx := b.begin()
			_, err = b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{replaced})
			b.must(err)
			started := map[int64]bool{}
			for range 5 {
				for _, j := range b.take(5, 0) {
					started[j.ID] = true
				}
			}
			for _, id := range others {
				if !started[id] {
					t.Errorf("job %d has not started beside the transaction", id)
				}
			}
			b.must(end(b, tx))
			if n := len(b.take(5, 0)); n != 1 {
				t.Errorf("%d jobs start after it, want the one that it held", n)
			}
			b.consistent()
		})
	}
}

// A group gets its places while another claim is under way, which cannot see these jobs and goes on to later turns.
// Before a job that is enqueued then, and that is alone in its group, the other group starts a job in each of its places,
// but no more.
func TestAGroupThatGetsPlacesBesideAClaimStartsOneInEach(t *testing.T) {
	needs.Race(t)
	const places = 5
	b := newBench(t, postgres.Options{})
	b.change(dibs.QueueChange{Order: new(dibs.Fair), GroupLimit: new(places)})
	b.add(slices.Repeat([]string{"early"}, places)...)
	b.take(1, 0)
	b.add(slices.Repeat([]string{"late"}, places+2)...)
	tx := b.begin()
	_, err := tx.Exec(b.ctx, "select from dibs.wake_list for update")
	b.must(err)
	var first []*dibs.RawJob
	end := b.beside(1, func() (err error) {
		first, err = b.Claim(b.ctx, request(1))
		return err
	})
	if jobs := b.take(places, 0); len(jobs) != places-1 || jobs[0].Group != "early" {
		t.Fatalf("beside it, %d jobs were claimed", len(jobs))
	}
	b.must(tx.Rollback(b.ctx))
	b.must(end())
	b.add("alone")
	before := 0
	for jobs := first; jobs[0].Group != "alone"; before++ {
		b.must(b.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
		jobs = b.take(1, 0)
	}
	if before != places {
		t.Errorf("%d jobs of the other group came first, and docs/guarantees.md says one for each of its %d places", before, places)
	}
	b.consistent()
}
