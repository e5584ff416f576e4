package sqlite_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !f(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// inOneTransaction holds the writer back until all calls wait, so that they share a transaction.
func inOneTransaction(t *testing.T, s *sqlite.Store, calls ...func() error) []error {
	t.Helper()
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(calls))
	done := make(chan struct{})
	// The writer takes one call and waits for the turn; the others queue up.
	for i, call := range calls {
		go func() { errs[i] = call(); done <- struct{}{} }()
	}
	eventually(t, "all calls wait", func() bool { return s.Queued() == len(calls)-1 })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range calls {
		<-done
	}
	return errs
}

func enqueueKind(ctx context.Context, s *sqlite.Store, kind string, payload any) func() error {
	return func() error {
		_, err := s.Enqueue(ctx, []dibs.NewJob{{Kind: kind}, {Kind: kind, Payload: payload}})
		return err
	}
}

func kinds(t *testing.T, s *sqlite.Store) map[string]int {
	t.Helper()
	page, err := s.List(t.Context(), admin.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]int)
	for _, j := range page.Jobs {
		n[j.Kind]++
	}
	return n
}

func TestACallThatFailsUndoesOnlyItself(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	small := 10
	if _, err := s.ChangeQueue(t.Context(), dibs.DefaultQueue, dibs.QueueChange{PayloadLimit: &small}.Apply); err != nil {
		t.Fatal(err)
	}
	errs := inOneTransaction(t, s,
		enqueueKind(t.Context(), s, "good", 1),
		enqueueKind(t.Context(), s, "large", strings.Repeat("x", 20)),
		enqueueKind(t.Context(), s, "good", 2),
	)
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the good calls got %v and %v", errs[0], errs[2])
	}
	if !errors.Is(errs[1], dibs.ErrInvalid) {
		t.Errorf("the bad call got %v", errs[1])
	}
	if n := kinds(t, s); n["good"] != 4 || n["large"] != 0 {
		t.Errorf("stored: %v", n)
	}
}

// Calls run again when another one of their transaction fails; their answers are those of one run.
func TestACallThatFailsChangesNoAnswersOfOthers(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	small := 10
	if _, err := s.ChangeQueue(t.Context(), dibs.DefaultQueue, dibs.QueueChange{PayloadLimit: &small}.Apply); err != nil {
		t.Fatal(err)
	}
	done, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "a"}, {Kind: "b"}, {Kind: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := done[0].ID, done[1].ID, done[2].ID
	if _, _, err := s.Cancel(t.Context(), []int64{c}); err != nil {
		t.Fatal(err)
	}
	var ended, asked, edited, requeued []int64
	var added []dibs.Enqueued
	errs := inOneTransaction(t, s,
		func() (err error) { ended, asked, err = s.Cancel(t.Context(), []int64{a}); return err },
		func() (err error) {
			edited, err = s.Edit(t.Context(), []int64{b}, admin.Edit{Priority: new(7)})
			return err
		},
		func() (err error) { requeued, err = s.Requeue(t.Context(), []int64{c}, time.Time{}); return err },
		func() (err error) {
			added, err = s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "d"}})
			return err
		},
		enqueueKind(t.Context(), s, "large", strings.Repeat("x", 20)),
	)
	if err := errors.Join(errs[:4]...); err != nil || !errors.Is(errs[4], dibs.ErrInvalid) {
		t.Errorf("the good calls got %v, the bad one %v", err, errs[4])
	}
	if !slices.Equal(ended, []int64{a}) || len(asked) > 0 || !slices.Equal(edited, []int64{b}) || !slices.Equal(requeued, []int64{c}) || len(added) != 1 {
		t.Errorf("cancelled %v, asked %v, edited %v, requeued %v, added %v", ended, asked, edited, requeued, added)
	}
	if n := kinds(t, s); n["b"] != 1 || n["c"] != 1 || n["d"] != 1 || n["large"] != 0 {
		t.Errorf("stored: %v", n)
	}
}

// A call that joins a transaction of long calls reads its own time: with theirs, a lease that
// has ended in between would count as held.
func TestCallsOfOneTransactionHaveTimesOfTheirOwn(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	var first, second int64
	errs := inOneTransaction(t, s,
		func() error { return s.TimedCall(t.Context(), &first) },
		func() error { return s.TimedCall(t.Context(), &second) })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	// Each call goes on for five milliseconds after it has read its time.
	if d := time.Duration(max(first, second)-min(first, second)) * time.Microsecond; d < 4*time.Millisecond {
		t.Errorf("the times of two calls of one transaction lie %v apart", d)
	}
}

func TestACancelledCallerHarmsNoOther(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { gone <- enqueueKind(ctx, s, "gone", nil)() }()
	go func() { stays <- enqueueKind(t.Context(), s, "stays", nil)() }()
	eventually(t, "both wait", func() bool { return s.Queued() == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v while the file was locked", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-stays; err != nil {
		t.Error(err)
	}
	if n := kinds(t, s); n["gone"] != 0 || n["stays"] != 2 {
		t.Errorf("stored: %v", n)
	}
}

func TestAFullDiskFailsAllCallsOfATransactionAndLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "before"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.OnWriter(t.Context(), "pragma max_page_count = 60"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "first"}, {Kind: "large", Payload: strings.Repeat("x", 500_000)}})
	if !errors.Is(err, dibs.ErrUnavailable) || !strings.Contains(err.Error(), "make room") {
		t.Fatalf("a full disk gives %v", err)
	}
	if n := kinds(t, s); n["before"] != 1 || len(n) != 1 {
		t.Errorf("stored: %v", n)
	}
	if err := s.OnWriter(t.Context(), "pragma max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "after"}}); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestAStoreCallInsideATransactionGivesUpInsteadOfHanging(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	err := s.InTx(t.Context(), func(tx dibs.Tx) error {
		if _, err := tx.Enqueue(t.Context(), []dibs.NewJob{{Kind: "inside"}}); err != nil {
			return err
		}
		_, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "by mistake"}})
		return err
	})
	if !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := kinds(t, s); len(n) != 0 {
		t.Errorf("stored: %v", n)
	}
}

func TestTheTurnComesBackFromAPanic(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	func() {
		defer func() { _ = recover() }()
		_ = s.InTx(t.Context(), func(dibs.Tx) error { panic("mistake") })
	}()
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Error(err)
	}
}

func TestCallsAfterCloseFail(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), t.TempDir()+"/jobs.db", sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err == nil {
		t.Error("Enqueue did not fail")
	}
	if _, err := s.Get(t.Context(), 1); err == nil || errors.Is(err, dibs.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if err := s.InTx(t.Context(), func(dibs.Tx) error { return nil }); err == nil {
		t.Error("InTx did not fail")
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
