package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// twoThatAdd are two running jobs with a follower each. The end of each adds a job after the other's follower.
func (b flowBench) twoThatAdd() (ends [2]dibs.Outcome) {
	b.Helper()
	ref := func(name string) dibs.NewJob { return dibs.NewJob{Kind: "k", Ref: name} }
	ids := b.enqueue(ref("a"), ref("b"), follower("a"), follower("b"))
	for i, j := range b.claim(2) {
		ends[i] = j.Lease().Complete(nil)
		ends[i].Add = []dibs.NewJob{follower(ids[3-i])}
	}
	return ends
}

// work completes n jobs as soon as they may start.
func (b flowBench) work(n int) {
	b.Helper()
	for end := time.Now().Add(time.Minute); n > 0; time.Sleep(time.Millisecond) {
		jobs, err := b.stores[0].Claim(b.Context(), dibs.ClaimRequest{Worker: "w", N: n, Lease: time.Hour})
		b.must(err)
		for _, j := range jobs {
			b.must(b.stores[0].Finish(b.Context(), []dibs.Outcome{j.Lease().Complete(nil)}))
		}
		if n -= len(jobs); time.Now().After(end) {
			b.Fatalf("%d jobs never start", n)
		}
	}
}

// Two ends, in two processes at once, do not have the followers wait for each other.
func TestTwoEndsThatAddMakeNoCycle(t *testing.T) {
	b := newFlowBench(t)
	for range 20 {
		ends, errs := b.twoThatAdd(), make(chan error, 2)
		for i := range ends {
			go func() { errs <- b.stores[i].Finish(t.Context(), []dibs.Outcome{ends[i]}) }()
		}
		b.must(<-errs)
		b.must(<-errs)
		b.work(4)
	}
}

// An end in a caller's transaction that stays open keeps another from being written, which is told and can be repeated.
func TestAnEndThatAddsIsNotWrittenBesideAnOpenOne(t *testing.T) {
	b := newFlowBench(t)
	ends := b.twoThatAdd()
	b.must(b.stores[0].InTx(t.Context(), func(tx dibs.Tx) error {
		if err := tx.Finish(t.Context(), ends[:1]); err != nil {
			return err
		}
		var refused *dibs.FinishError
		if err := b.stores[1].Finish(t.Context(), ends[1:]); !errors.As(err, &refused) || len(refused.Unwritten) != 1 {
			t.Errorf("the other end: %v", err)
		}
		return nil
	}))
	b.must(b.stores[1].Finish(t.Context(), ends[1:]))
	b.work(4)
}

// Of a call's own jobs none is looked at by a settlement, unless the place that names it held a key.
func TestOnlyJobsThatWereThereAreListed(t *testing.T) {
	t.Parallel()
	jobs, err := checks.Jobs([]dibs.NewJob{
		{Kind: "k", Ref: "new", UniqueKey: "u"},
		{Kind: "k", Ref: "held", UniqueKey: "u"},
		{Kind: "k", After: []dibs.Dep{{Ref: "new"}}},
		{Kind: "k", After: []dibs.Dep{{Ref: "held"}}},
		{Kind: "k", After: []dibs.Dep{{ID: 3}}},
	}, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
	if err != nil {
		t.Fatal(err)
	}
	out := []dibs.Enqueued{{ID: 7}, {ID: 7, Existing: true}, {ID: 8}, {ID: 9}, {ID: 10}}
	none := func(int64) bool { return false }
	for n, want := range map[int][]int64{3: nil, 4: {7}, 5: {3, 7}} {
		if f := flowOf(jobs[:n], out[:n], none); !slices.Equal(f.late, want) {
			t.Errorf("of the first %d jobs %v are listed, want %v", n, f.late, want)
		}
	}
}
