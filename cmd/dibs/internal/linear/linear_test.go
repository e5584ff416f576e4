package linear_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/linear"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/sqlite"
)

// TestCheckFindsCallsThatNoOrderExplains records what happens to three jobs: each is claimed, and all but the
// last are completed. Then each case changes the records.
func TestCheckFindsCallsThatNoOrderExplains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change                     func(claim *history.Call, e *history.Evidence)
		checked, undecided, broken int
	}{
		"nothing is changed": {func(*history.Call, *history.Evidence) {}, 3, 0, 0},
		"another claim of the same jobs": {func(claim *history.Call, e *history.Evidence) {
			twin := *claim
			twin.Client, twin.Jobs = "other", slices.Clone(claim.Jobs)
			for i := range twin.Jobs {
				twin.Jobs[i].Token = dibs.Token{1}
			}
			e.Calls = append(e.Calls, &twin)
		}, 3, 0, 3},
		"a completed job waits at the end": {func(_ *history.Call, e *history.Evidence) {
			completed := slices.IndexFunc(e.Final, func(j *dibs.RawJob) bool { return j.State == dibs.Completed })
			e.Final[completed].State = dibs.Waiting
		}, 3, 0, 1},
		"the claim has no answer": {func(claim *history.Call, _ *history.Evidence) {
			claim.End, claim.Fate, claim.Jobs = time.Time{}, history.Unknown, nil
		}, 0, 3, 0},
	} {
		claim, e := record(t)
		c.change(claim, &e)
		checked, undecided, broken := linear.Check(e)
		if checked != c.checked || undecided != c.undecided || len(broken) != c.broken {
			t.Errorf("%s: %d checked, %d undecided, %d broken; want %d, %d, %d", name, checked, undecided, len(broken), c.checked, c.undecided, c.broken)
		}
	}
}

// record returns the records of three jobs in a new database, and the call that claimed them.
func record(t *testing.T) (claim *history.Call, e history.Evidence) {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "jobs.db"), sqlite.Options{Relaxed: true})
	must(t, err)
	defer func() { must(t, store.Close()) }()
	records, err := history.OpenIn(dir, "client")
	must(t, err)
	db := history.Wrap(store, records)
	jobs := make([]dibs.NewJob, 3)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: "q", Kind: "k", Payload: []byte(`{"key":"` + string(rune('a'+i)) + `"}`)}
	}
	_, err = db.Enqueue(t.Context(), jobs)
	must(t, err)
	claimed, err := db.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: len(jobs), Lease: time.Minute})
	must(t, err)
	must(t, db.Finish(t.Context(), []dibs.Outcome{claimed[0].Lease().Complete(nil), claimed[1].Lease().Complete(nil)}))
	must(t, records.Close())
	e, err = history.Collect(t.Context(), store, dir)
	must(t, err)
	for _, c := range e.Calls {
		if c.Verb == history.Claim {
			claim = c
		}
	}
	return claim, e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
