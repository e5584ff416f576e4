package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
)

// A lease has ended by the row that is committed, but a transaction that is still open has extended it. Calls about it that
// come meanwhile must not say that it is lost.
func TestALeaseThatIsBeingExtendedIsNotLost(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	must(err)
	claimed, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	must(err)
	lease := claimed[0].Lease()
	outcome := []dibs.Outcome{lease.Complete(nil)}
	move := func(by time.Duration) string {
		return fmt.Sprint("update dibs_job set lease_until = lease_until + ", by.Microseconds())
	}
	_, err = s.DB().ExecContext(ctx, move(-time.Hour))
	must(err)
	extension, err := s.DB().BeginTx(ctx, nil)
	must(err)
	defer extension.Rollback()
	_, err = extension.ExecContext(ctx, move(2*time.Hour))
	must(err)

	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if err := s.Finish(short, outcome); err == nil || errors.Is(err, dibs.ErrLeaseLost) {
		t.Errorf("finish beside the extension: %v, want that it was not written", err)
	}
	e, err := s.Extend(ctx, []dibs.Lease{lease}, time.Minute)
	if err != nil || len(e.Lost) > 0 || len(e.Finishing) != 1 {
		t.Errorf("extend beside the extension: %+v, %v, want that the job is finishing", e, err)
	}
	must(extension.Commit())
	must(s.Finish(ctx, outcome))
}

// An extension of a lease that has ended says so at once.
func TestALeaseThatHasEndedIsLost(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := pass(t.Context(), s.DB(), time.Hour); err != nil {
		t.Fatal(err)
	}
	e, err := s.Extend(t.Context(), []dibs.Lease{claimed[0].Lease()}, time.Minute)
	if err != nil || len(e.Lost) != 1 {
		t.Errorf("extend: %+v, %v, want that the lease is lost", e, err)
	}
}
