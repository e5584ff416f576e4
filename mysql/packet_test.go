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
}
