package sqlite_test

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// A worker's claim for one kind that has read past many jobs of another and found nothing is not repeated at once, and takes
// the file's lock for a moment only. Other callers' claims look always.
func TestClaimsForOneKindBehindManyOthersAreSpacedOut(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir()+"/dibs.db", sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "wanted"}}); err != nil {
		t.Fatal(err)
	}
	claim := func(again bool) int {
		t.Helper()
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1, Kinds: []string{"wanted"}, Again: again})
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	wake, stop := s.Wakeups("")
	defer stop()
	s.NoteFruitless(dibs.DefaultQueue, "wanted", time.Now(), time.Hour)
	if claim(true) != 0 {
		t.Error("a claim follows at once")
	}
	s.NoteFruitless(dibs.DefaultQueue, "wanted", time.Now(), 900*time.Millisecond) // with the longest pause, 1 s, this makes 1.9 s
	s.Wake("")
	<-wake
	if claim(true) != 0 {
		t.Error("a claim follows at once after a wake-up")
	}
	for claimed := 0; claimed == 0; claimed = claim(true) {
		select {
		case <-wake: // the last wake-up comes when the pause is over
		case <-time.After(time.Minute):
			t.Fatal("no claim follows after the pause")
		}
	}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "wanted"}}); err != nil {
		t.Fatal(err)
	}
	s.NoteFruitless(dibs.DefaultQueue, "wanted", time.Now(), time.Hour)
	if claim(false) != 1 {
		t.Error("a caller that claims once gets nothing")
	}
}
