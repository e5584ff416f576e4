package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
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
