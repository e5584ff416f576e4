package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// Groups need a row for the rate of their queue only until they have saved up all of it again, or
// a table of customers would become one of all customers that ever were.
func TestGroupsLeaveNoRowOnceTheirQueuesRateIsSavedUp(t *testing.T) {
	b := newBench(t, postgres.Options{})
	rate := &dibs.Rate{N: 1, Per: time.Hour}
	_, err := b.ChangeQueue(b.ctx, "q", dibs.QueueChange{GroupRate: rate, GroupLimit: new(5)}.Apply)
	b.must(err)
	b.must(b.ChangeGroup(b.ctx, "q", "own", dibs.GroupChange{Rate: rate}.Apply))
	enqueue := func(group string) {
		_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: group}})
		b.must(err)
	}
	claim := func(s *postgres.Store, n int) (done []dibs.Outcome) {
		jobs, err := s.Claim(b.ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: n})
		b.must(err)
		for _, j := range jobs {
			done = append(done, j.Lease().Complete(nil))
		}
		return done
	}
	rows := func() (names []string) {
		r, err := b.pool.Query(b.ctx, "select group_key from dibs.rate where queue = 'q' order by group_key")
		b.must(err)
		for r.Next() {
			var name string
			b.must(r.Scan(&name))
			names = append(names, name)
		}
		b.must(r.Err())
		return names
	}
	for i := range 5 {
		enqueue(fmt.Sprint("g", i))
	}
	enqueue("own")
	done := claim(b.Store, 6)
	b.must(b.Finish(b.ctx, done))
	enqueue("waits")
	claim(b.Store, 1)
	enqueue("waits")
	claim(b.openAnother(), 1) // this claim admits, and no job may start yet
	want := []string{"g0", "g1", "g2", "g3", "g4", "own", "waits"}
	if got := rows(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("rows of %q, want %q: the rate is not saved up yet", got, want)
	}
	_, err = b.pool.Exec(b.ctx, "update dibs.rate set full_ns = 0, not_before = null, held_until = null where group_key <> 'g3' and queue = 'q'")
	b.must(err)
	enqueue("new")
	claim(b.openAnother(), 1)
	want = []string{"g3", "new", "own", "waits"}
	if got := rows(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("rows of %q, want %q", got, want)
	}
	if n := len(claim(b.openAnother(), 5)); n > 1 {
		t.Fatalf("%d jobs started, want one at most", n)
	}
	_, err = b.ChangeQueue(b.ctx, "q", dibs.QueueChange{GroupRate: &dibs.Rate{}}.Apply)
	b.must(err)
	if got := rows(); fmt.Sprint(got) != "[own]" {
		t.Fatalf("without a rate of the queue, there are rows of %q", got)
	}
}

// A transaction that sets a group's rate holds up only jobs of groups that have no place yet, and no call.
func TestATransactionThatSetsAGroupHoldsUpNoCall(t *testing.T) {
	b := newBench(t, postgres.Options{})
	claim := func(want string) {
		t.Helper()
		jobs, err := b.Claim(b.ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 5})
		b.must(err)
		got := []string{}
		for _, j := range jobs {
			got = append(got, j.Kind)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("claimed %v, want %s", got, want)
		}
	}
	_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "first", Group: "first"}})
	b.must(err)
	claim("[first]")
	b.must(b.InTx(b.ctx, func(tx dibs.Tx) error {
		if err := tx.ChangeGroup(b.ctx, "q", "g", dibs.GroupChange{Limit: new(2), Rate: &dibs.Rate{N: 9, Per: time.Second}}.Apply); err != nil {
			return err
		}
		_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "grouped", Group: "other"}, {Queue: "q", Kind: "free"}})
		b.must(err)
		claim("[free]")
		return nil
	}))
	claim("[grouped]")
	b.must(b.InTx(b.ctx, func(tx dibs.Tx) error {
		if err := tx.ChangeGroup(b.ctx, "q", "g", dibs.GroupChange{Limit: new(3)}.Apply); err != nil {
			return err
		}
		_, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "grouped", Group: "third"}})
		b.must(err)
		claim("[grouped]") // a limit holds up no admission
		return nil
	}))
}
