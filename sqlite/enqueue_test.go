package sqlite_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// One statement inserts many jobs that are alike. They are stored as if each was enqueued by
// itself, and so is a job among them that differs in a single field.
func TestJobsOfABatchAreStoredLikeSingleOnes(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	odd := []dibs.NewJob{
		{Kind: "k", Queue: "other"},
		{Kind: "another"},
		{Kind: "k", Metadata: []byte(`{"m": 1}`)},
		{Kind: "k", Priority: new(0)},
		{Kind: "k", Delay: time.Hour},
		{Kind: "k", RunAt: time.Date(2200, 1, 2, 3, 4, 5, 6_000, time.UTC)},
		{Kind: "k", MaxAttempts: 7},
		{Kind: "k", Group: "g"},
		{Kind: "k", UniqueKey: "u"},
		{Kind: "k", UniqueKey: "u"},
		{Kind: "k", UniqueKey: "v", UniqueUntil: dibs.UntilClaimed},
	}
	var batch []dibs.NewJob
	for _, j := range odd {
		for range 49 {
			batch = append(batch, dibs.NewJob{Kind: "k"})
		}
		batch = append(batch, j)
	}
	for _, j := range odd { // jobs that are alike, but not like the default
		for range 70 {
			batch = append(batch, j)
		}
	}
	for i := range batch {
		batch[i].Payload = i
	}
	together, alone := openStore(t, sqlite.Options{}), openStore(t, sqlite.Options{})
	done, err := together.Enqueue(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range done {
		single, err := alone.Enqueue(t.Context(), batch[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		if e != single[0] {
			t.Fatalf("job %d of the batch: %+v; enqueued by itself: %+v", i, e, single[0])
		}
		if got, want := stored(t, together, e.ID), stored(t, alone, e.ID); !reflect.DeepEqual(got, want) {
			t.Fatalf("job %d of the batch is stored as\n%+v; enqueued by itself as\n%+v", i, got, want)
		}
	}
	got, want := statsOf(t, together), statsOf(t, alone)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("counts of the batch: %v; of single jobs: %v", got, want)
	}
}

// stored reads a job, with times that do not depend on when it was enqueued.
func stored(t *testing.T, s *sqlite.Store, id int64) dibs.RawJob {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if after := j.RunAt.Sub(j.CreatedAt); after <= time.Hour {
		j.RunAt = time.Time{}.Add(after)
	}
	j.CreatedAt = time.Time{}
	return *j
}

// statsOf lists the counts of jobs by queue.
func statsOf(t *testing.T, s *sqlite.Store) map[string][]int64 {
	t.Helper()
	all, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string][]int64)
	for _, q := range all {
		counts[q.Queue] = []int64{q.Waiting, q.Blocked, q.Running}
	}
	return counts
}
