package postgres_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// A worker that was gone for a while writes its outcomes: a transaction holds one job,
// and others are somebody else's by now. It learns of both, and can write the first again.
func TestAStaleOutcomeBesideALockedOneIsReported(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("", "", "", "")
	jobs := b.take(4, 0)
	b.must(b.Finish(b.ctx, []dibs.Outcome{jobs[1].Lease().Release(), jobs[3].Lease().Release()}))
	fresh := b.take(2, 0)
	tx := b.begin()
	b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
	err := b.Finish(b.ctx, []dibs.Outcome{
		jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete(nil), jobs[2].Lease().Complete(nil), jobs[3].Lease().Retry("e"),
	})
	var left *dibs.UnwrittenError
	if !errors.As(err, &left) || !slices.Equal(left.IDs, []int64{jobs[0].ID}) || !slices.Equal(left.Lost, []int64{jobs[1].ID, jobs[3].ID}) {
		t.Errorf("got %+v, want job %d unwritten, jobs %d and %d lost", err, jobs[0].ID, jobs[1].ID, jobs[3].ID)
	}
	b.must(tx.Rollback(b.ctx))
	b.must(b.Finish(b.ctx, []dibs.Outcome{
		jobs[0].Lease().Complete(nil), fresh[0].Lease().Complete(nil), fresh[1].Lease().Complete(nil),
	}))
	if stats, err := b.Stats(b.ctx); err != nil || stats[0].Completed != 4 {
		t.Errorf("completed: %+v, %v", stats, err)
	}
	b.sound()
}
