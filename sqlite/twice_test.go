package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
	"github.com/dibs-queue/dibs/storetest"
)

func openTwice(t testing.TB, path string, between func(*sqlite.Store)) *sqlite.Store {
	t.Helper()
	s, err := sqlite.OpenTwice(t.Context(), path, between)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Between the two runs of a claim, another one for the same kinds finds nothing, as the first run holds the job, and has
// this one rest. What the first run took was rolled back.
func TestAClaimThatIsRunAgainHoldsWhatItReturns(t *testing.T) {
	t.Parallel()
	claiming := false
	s := openTwice(t, filepath.Join(t.TempDir(), "jobs.db"), func(s *sqlite.Store) {
		if claiming {
			s.NoteFruitless("q", "k", time.Now(), time.Second)
		}
	})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	claiming = true
	claimed := map[int64]string{}
	for _, worker := range []string{"one", "two"} {
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: worker, N: 1, Kinds: []string{"k"}, Again: worker == "one", Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if owner := claimed[j.ID]; owner != "" {
				t.Errorf("job %d has two owners, %s and %s, both for attempt %d", j.ID, owner, worker, j.Attempt)
			}
			claimed[j.ID] = worker
		}
	}
	if len(claimed) != 1 {
		t.Errorf("%d jobs are claimed, want 1", len(claimed))
	}
}

// TestStoreThatRunsEachCallTwice runs the conformance suite: nothing may remain of a run that was rolled back.
func TestStoreThatRunsEachCallTwice(t *testing.T) {
	needs.Night(t, "the suite runs in make test without it, and a claim is run twice above")
	t.Parallel()
	storetest.Run(t, storetest.SQLite, func(t testing.TB) storetest.Setup {
		path := filepath.Join(t.TempDir(), "jobs.db")
		open := func(t testing.TB) *sqlite.Store { return openTwice(t, path, func(*sqlite.Store) {}) }
		s := open(t)
		return storetest.Setup{
			Store:   s,
			Another: func(t testing.TB) admin.Database { return open(t) },
			Begin:   map[string]storetest.Begin{"sql": storetest.SQL(s.DB(), s.SQLTx)},
			Pass:    func(ctx context.Context, d time.Duration) error { return model.PassInFile(ctx, s.DB(), d) },
		}
	})
}
