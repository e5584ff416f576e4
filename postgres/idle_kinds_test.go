package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// The more a claim without marks reads, the later comes the next: an idle worker for one kind behind 100,000 due jobs of
// another, of which the ready index has 770 pages, reads them twice a minute at most.
func TestClaimsWithoutMarksComeTheMoreSeldomTheMoreTheyRead(t *testing.T) {
	t.Parallel()
	m := &marks{}
	m.recordReads(false, 770, 0)
	if at := time.Until(m.probeAt); at < 30*time.Second {
		t.Errorf("after 770 pages the next comes in %v", at)
	}
}

// A connection that ends may mean another server, without the last transactions of the one before: then claims look below the marks.
func TestAfterALostConnectionClaimsLookBelowTheMarks(t *testing.T) {
	t.Parallel()
	s, _ := tracedStore(t)
	admin := opened(t, s.pool.Config().ConnString())
	if _, err := s.Enqueue(t.Context(), jobsOf("q", "", 1)); err != nil {
		t.Fatal(err)
	}
	claim := func() (int, error) {
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
		return len(jobs), err
	}
	m := s.queues.lanesOf("q").marks(nil)
	m.mu.Lock()
	m.places = map[int16]mark{dibs.DefaultPriority: {runAt: time.Now().Add(time.Hour)}}
	m.probeAt = time.Now().Add(time.Hour)
	m.mu.Unlock()
	if n, err := claim(); n != 0 || err != nil {
		t.Fatalf("from the mark on, a claim finds %d jobs, %v", n, err)
	}
	const end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
	if _, err := admin.pool.Exec(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		n, err := claim()
		if n == 1 {
			return
		}
		if err != nil && !errors.Is(err, dibs.ErrUnavailable) {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("the job below the mark is not found")
		}
	}
}

// In a queue without marks, a worker's claim for one kind that has read past many jobs of another is not repeated at once. A
// wake-up brings the next one soon, and other callers' claims look always.
func TestClaimsForOneKindBehindManyOthersAreSpacedOut(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s, sent := tracedStore(t)
	admin := opened(t, s.pool.Config().ConnString())
	const many = 12000 // over 90 pages of the ready index
	jobs := slices.Repeat([]dibs.NewJob{{Queue: "q", Kind: "other", Payload: 1}}, many)
	jobs[0].Group = "g" // queues with groups have no marks
	for part := range slices.Chunk(jobs, dibs.MaxBatch) {
		if _, err := admin.Enqueue(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(again bool) (jobs []*dibs.RawJob, names []string) {
		t.Helper()
		sent.forget()
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Kinds: []string{"wanted"}, Again: again})
		if err != nil {
			t.Fatal(err)
		}
		return jobs, sent.named(s)
	}
	claim(true) // the store learns the lanes
	looks := func(again bool) bool {
		jobs, names := claim(again)
		if len(jobs) > 0 {
			t.Fatalf("a claim for one kind gets %d jobs of another", len(jobs))
		}
		return slices.Contains(names, "claim")
	}
	for end := time.Now().Add(time.Minute); looks(true); { // on a slow machine the pause may be over by the second claim
		if time.Now().After(end) {
			t.Fatal("no claim is left out after one that has read much")
		}
	}
	if !looks(false) {
		t.Error("a caller that does not claim again does not look")
	}
	ran := make(chan struct{}, 1)
	w := &dibs.Worker{Store: opened(t, s.pool.Config().ConnString()), Queue: "q"}
	dibs.Handle(w, "wanted", func(context.Context, *dibs.Job[any]) error {
		ran <- struct{}{}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if _, err := admin.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "wanted", Payload: 1}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ran:
	case <-time.After(time.Minute):
		t.Error("the worker does not find its job")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
