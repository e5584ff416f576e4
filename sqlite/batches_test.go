package sqlite_test

import (
	"sync"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

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
