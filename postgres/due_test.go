package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// Due begins at marks where these are certain, and leaves the look to a claim where they are not.
func TestAQueueWithAJobBelowItsMarkIsDue(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	s := opened(t, url)
	due := func(what string, want ...string) {
		t.Helper()
		got, err := s.Due(t.Context(), []string{"q", "r"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: due are %q, want %q", what, got, want)
		}
	}
	if _, err := s.Enqueue(t.Context(), jobsOf("q", "", 1)); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	m := s.queues.lanesOf("q").marks(nil)
	place := func(probe time.Time, late ...uint64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.places = map[int16]mark{dibs.DefaultPriority: {runAt: jobs[0].RunAt.Add(time.Millisecond)}}
		m.passedOver, m.probeAt = map[uint64]map[int16]mark{}, probe
		for _, x := range late {
			m.passedOver[x] = m.places
		}
	}
	soon := time.Now().Add(time.Hour)
	place(soon)
	due("while it runs")
	if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Release()}); err != nil {
		t.Fatal(err)
	}
	due("put back", "q")
	if jobs, err = s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour}); err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	place(soon)
	due("claimed again")
	place(soon, 1<<40)
	due("while a transaction that was passed over may have ended", "q")
	place(time.Now())
	due("when it is time to look without marks", "q")
}
