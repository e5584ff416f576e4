package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

func TestBatchesAreObserved(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	(*postgres.Store)(nil).ObserveBatches(func(string, int) {})
	s, _ := migrated(t, postgres.Options{})
	var mu sync.Mutex
	calls := map[string]int{}
	s.ObserveBatches(func(call string, n int) {
		mu.Lock()
		defer mu.Unlock()
		calls[call] += n
	})
	use := func(n int) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
					t.Error(err)
				}
				jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
				if err != nil {
					t.Error(err)
				}
				for _, job := range jobs {
					if _, err := s.Extend(t.Context(), []dibs.Lease{job.Lease()}, time.Hour); err != nil {
						t.Error(err)
					}
					if err := s.Finish(t.Context(), []dibs.Outcome{job.Lease().Complete(nil)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	const n = 40
	use(n)
	if calls["enqueue"] != n || calls["claim"] != n || calls["finish"] == 0 || calls["finish"] != calls["extend"] {
		t.Errorf("%d calls of each were %v in batches", n, calls)
	}
	s.ObserveBatches(nil)
	use(1)
	if calls["enqueue"] != n {
		t.Error("who no longer wants to know is told")
	}
}

func TestFiguresOfAStore(t *testing.T) {
	t.Parallel()
	(*postgres.Store)(nil).Figures(func(string, float64) {})
	new(postgres.Store).Figures(func(string, float64) {})
	s, _ := migrated(t, postgres.Options{MaxConns: 3})
	s.Figures(nil)
	got := map[string]float64{}
	s.Figures(func(name string, v float64) { got[name] = v })
	if got["pool_max_connections"] != 3 || got["pool_acquires"] == 0 || got["pool_idle_connections"]+got["pool_used_connections"] == 0 || len(got) != 11 {
		t.Errorf("%v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Figures(func(name string, v float64) { got[name] = v })
	if got["pool_idle_connections"] != 0 {
		t.Errorf("of a closed store: %v", got)
	}
}
