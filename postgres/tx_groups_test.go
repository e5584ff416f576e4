package postgres_test

import (
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// A change of a group waits for the open transaction that has changed it, and sees what that has set.
func TestChangesOfOneGroupInTransactionsFollowEachOther(t *testing.T) {
	needs.Race(t)
	for name, change := range map[string]func(b bench, f func(*dibs.Group) error) error{
		"in a transaction": func(b bench, f func(*dibs.Group) error) error {
			return b.InTx(b.ctx, func(tx dibs.Tx) error { return tx.ChangeGroup(b.ctx, "q", "g", f) })
		},
		"by the store": func(b bench, f func(*dibs.Group) error) error { return b.ChangeGroup(b.ctx, "q", "g", f) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			b.must(b.ChangeGroup(b.ctx, "q", "g", dibs.GroupChange{Limit: new(1)}.Apply))
			tx := b.begin()
			b.must(b.Tx(tx).ChangeGroup(b.ctx, "q", "g", dibs.GroupChange{Limit: new(50)}.Apply))
			var limit int
			end := b.beside(1, func() error {
				return change(b, func(g *dibs.Group) error { limit, g.Limit = g.Limit, 1; return nil })
			})
			b.must(tx.Commit(b.ctx))
			b.must(end())
			groups, err := b.Groups(b.ctx, "q")
			b.must(err)
			if limit != 50 || len(groups) != 1 || groups[0].Limit != 1 {
				t.Errorf("the second change saw a limit of %d, want 50; in the end there is %+v", limit, groups)
			}
		})
	}
}
