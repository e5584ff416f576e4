package mysql_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

func TestLocksOfAClaimUnderALimit(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	ctx := t.Context()
	if _, err := s.ChangeQueue(ctx, "q", dibs.QueueChange{Concurrency: new(5)}.Apply); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}, {Queue: "q", Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Locks(ctx, "q", 3)
	if err != nil || f.Claimed != 3 || f.Paused {
		t.Fatalf("the footprint is %+v, %v", f, err)
	}
	for _, want := range []admin.Lock{{On: "rows of dibs_job", Mode: "X", Rows: 3}, {On: "rows of dibs_turn", Mode: "X", Rows: 1}} {
		if !slices.ContainsFunc(f.Locks, func(l admin.Lock) bool { l.Means = ""; return l == want }) {
			t.Errorf("the locks are %+v, without %+v", f.Locks, want)
		}
	}
	for what, note := range map[string]string{
		"another claim": "gets nothing: claims under a limit or a rate take turns", "enqueue into the queue": "", "enqueue into the same group": "",
		"extend another job": "no other job", "finish another job": "no other job", "a change of settings": "", "stats": "", "list": "",
	} {
		if !slices.ContainsFunc(f.Others, func(o admin.Other) bool { return o.What == what && o.Note == note && o.WaitsFor == "" }) {
			t.Errorf("the others are %+v, without %s: %s", f.Others, what, note)
		}
	}
	stats, err := s.Stats(ctx)
	if err != nil || stats[0].Running != 0 || stats[0].Claimed != 0 || stats[0].Enqueued != 8 {
		t.Errorf("after looking there are %+v, %v", stats, err)
	}
	soundAfter(t, s)
}

// TestLocksSayWhoWaits has a transaction of another program hold the queue's row, for which only a change of settings waits.
func TestLocksSayWhoWaits(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	ctx := t.Context()
	if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	tx, err := s.DB().BeginTx(ctx, nil)
	if err == nil {
		_, err = tx.ExecContext(ctx, "update dibs_queue set version = version + 1")
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Locks(ctx, "q", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range f.Others {
		if waits := o.What == "a change of settings"; waits != (o.WaitsFor != "") {
			t.Errorf("while another holds the queue: %+v", o)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func TestLocksRefuseBadArguments(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	if _, err := s.Locks(t.Context(), "none", 1); !errors.Is(err, dibs.ErrUnknownQueue) {
		t.Errorf("of a queue that does not exist: %v", err)
	}
	if _, err := s.Locks(t.Context(), "q", 0); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("of no jobs: %v", err)
	}
	var missing context.Context
	var none *mysql.Store
	for _, ask := range []func() error{
		func() error { _, err := none.Locks(t.Context(), "q", 1); return err },
		func() error { _, err := s.Locks(missing, "q", 1); return err },
		func() error { _, err := none.Diagnose(t.Context()); return err },
		func() error { _, err := s.Diagnose(missing); return err },
	} {
		if err := ask(); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("without a store or a context: %v", err)
		}
	}
}
