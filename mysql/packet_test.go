package mysql_test

import (
	"strings"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// A server takes packets of 16 MiB unless it is told otherwise. Jobs whose payloads are larger together, or with what protects
// their quotes, are enqueued all the same.
func TestStatementsMayBeLargerThanAPacket(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	_, err := s.ChangeQueue(t.Context(), "default", func(q *dibs.Queue) error { q.PayloadLimit = 16 << 20; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{16, 1} {
		jobs := make([]dibs.NewJob, n)
		for i := range jobs {
			jobs[i] = dibs.NewJob{Kind: "k", Payload: strings.Repeat(`"`, 6<<20/n)}
		}
		if _, err := s.Enqueue(t.Context(), jobs); err != nil {
			t.Errorf("%d jobs: %v", n, err)
		}
	}
	execute(t, s.DB(), `insert into dibs_inbox (queue, kind, payload) values ('default', 'large', concat('"', repeat('x', ?), '"'))`, 16<<20-4)
	for inInbox(t, s.DB()) > 0 {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "default", Worker: "w", N: 1, Kinds: []string{"large"}})
	if err != nil || len(jobs) != 1 || len(jobs[0].Payload) != 16<<20-2 {
		t.Errorf("%d jobs were claimed, %v", len(jobs), err)
	}
}
