package mysql_test

import (
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// TestALimitThatIsLoweredBesideAClaimThatIsRolledBackHolds lowers a group's limit while a transaction has locked the jobs that have
// places, so that these cannot be taken from them.
func TestALimitThatIsLoweredBesideAClaimThatIsRolledBackHolds(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	limit := func(n int) {
		err := s.ChangeGroup(t.Context(), "q", "g", func(g *dibs.Group) error { g.Limit = n; return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(3)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}, {Queue: "q", Kind: "k", Group: "g"}, {Queue: "q", Kind: "k", Group: "g"}}); err != nil {
		t.Fatal(err)
	}
	claim := dibs.ClaimRequest{Queue: "q", Worker: "w", N: 3}
	tx, err := s.DB().Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it may have ended
	if jobs, err := s.SQLTx(tx).Claim(t.Context(), claim); err != nil || len(jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	limit(1)
	if jobs, err := s.Claim(t.Context(), claim); err != nil || len(jobs) != 0 {
		t.Fatalf("beside the transaction: %d jobs, %v", len(jobs), err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if jobs, err := s.Claim(t.Context(), claim); err != nil || len(jobs) > 1 {
		t.Errorf("after it: %d jobs, %v", len(jobs), err)
	}
}
