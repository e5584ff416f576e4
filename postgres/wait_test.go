package postgres

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/waits"
)

// Three thousand goroutines that wait cost no more statements than one, and those that find
// the ends are few.
func TestThousandsOfWaitersCostOneStatement(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), url, Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var looks, asked, most atomic.Int64
	s.waits.Look = func(ctx context.Context, ids []int64) (waits.Found, error) {
		looks.Add(1)
		asked.Add(int64(len(ids)))
		most.Store(max(most.Load(), int64(len(ids))))
		return s.upkeepReads().Ended(ctx, ids)
	}
	const n = 3000
	added, err := s.Enqueue(t.Context(), slices.Repeat([]dibs.NewJob{{Kind: "k"}}, n))
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, n)
	began := time.Now()
	for _, e := range added {
		go func() {
			j, err := s.Wait(t.Context(), e.ID)
			if err == nil && (j.ID != e.ID || j.State != dibs.Completed) {
				err = errors.New("another job, or not completed: " + string(j.State))
			}
			ends <- err
		}()
	}
	for most.Load() < n { // until one statement asks about all jobs
		time.Sleep(time.Millisecond)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: n, Lease: time.Hour})
	if err != nil || len(jobs) != n {
		t.Fatal(len(jobs), err)
	}
	outcomes := make([]dibs.Outcome, n)
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
	}
	before := looks.Load()
	if err := s.Finish(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d looks at %d jobs in %v, %d of them to find the ends", looks.Load(), asked.Load(), time.Since(began), looks.Load()-before)
	if got := looks.Load() - before; got > 2*n/waits.MaxFound {
		t.Errorf("%d looks found the ends", got)
	}
	if got, limit := before, 200+int64(time.Since(began)/(5*time.Millisecond)); got > limit {
		t.Errorf("%d looks before that, want at most %d", got, limit)
	}
}
