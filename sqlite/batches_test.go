package sqlite_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// What is committed counts, also in a transaction of the caller's.
func TestFiguresOfAStore(t *testing.T) {
	t.Parallel()
	(*sqlite.Store)(nil).Figures(func(string, float64) {})
	new(sqlite.Store).Figures(func(string, float64) {})
	s := openStore(t, sqlite.Options{})
	s.Figures(nil)
	figures := func() (released, cancelled float64) {
		got := map[string]float64{}
		s.Figures(func(name string, v float64) { got[name] = v })
		return got["followers_released"], got["followers_cancelled"]
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	flow := []dibs.NewJob{{Kind: "k", Ref: "a"}, {Kind: "k", After: []dibs.Dep{{Ref: "a"}}}}
	first, err := s.Enqueue(t.Context(), flow)
	must(err)
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: dibs.DefaultQueue, Worker: "w", N: 1})
	must(err)
	finish := func(end error) error {
		return s.InTx(t.Context(), func(tx dibs.Tx) error {
			must(tx.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
			return end
		})
	}
	if err := finish(errStop); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	if released, cancelled := figures(); released+cancelled != 0 {
		t.Errorf("of a transaction that was rolled back %v and %v are counted", released, cancelled)
	}
	must(finish(nil))
	second, err := s.Enqueue(t.Context(), flow)
	must(err)
	_, _, err = s.Cancel(t.Context(), []int64{first[1].ID, second[0].ID})
	must(err)
	if released, cancelled := figures(); released != 1 || cancelled != 1 {
		t.Errorf("%v were released and %v cancelled", released, cancelled)
	}
}

var errStop = errors.New("stop")

func TestBatchesAreObserved(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	(*sqlite.Store)(nil).ObserveBatches(func(string, int) {})
	s := openStore(t, sqlite.Options{})
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
			})
		}
		all.Wait()
	}
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return calls["write"]
	}
	const n = 40
	use(n)
	if seen() != n {
		t.Errorf("%d calls were %v in batches", n, calls)
	}
	s.ObserveBatches(nil)
	use(1)
	if seen() != n {
		t.Error("who no longer wants to know is told")
	}
}
