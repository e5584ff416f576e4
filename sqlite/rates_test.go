package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Groups need a row for the rate of their queue only until they have saved up all of it again, or
// a table of customers would become one of all customers that ever were.
func TestGroupsLeaveNoRowOnceTheirQueuesRateIsSavedUp(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), openStore(t, sqlite.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rate := &dibs.Rate{N: 1, Per: time.Hour}
	_, err := s.ChangeQueue(ctx, "q", dibs.QueueChange{GroupRate: rate}.Apply)
	must(err)
	must(s.ChangeGroup(ctx, "q", "own", dibs.GroupChange{Rate: rate}.Apply))
	var jobs []dibs.NewJob
	for _, g := range []string{"g0", "g1", "own", "waits", "waits"} {
		jobs = append(jobs, dibs.NewJob{Queue: "q", Kind: "k", Group: g})
	}
	_, err = s.Enqueue(ctx, jobs)
	must(err)
	claimed, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 9})
	must(err)
	for _, j := range claimed {
		must(s.Finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
	}
	rows := func(what string, want ...string) {
		t.Helper()
		_, err := s.Sweep(ctx)
		must(err)
		r, err := s.DB().QueryContext(ctx, "select group_key from dibs_rate where queue = 'q' order by group_key")
		must(err)
		defer r.Close()
		var names []string
		for r.Next() {
			var name string
			must(r.Scan(&name))
			names = append(names, name)
		}
		must(r.Err())
		if fmt.Sprint(names) != fmt.Sprint(want) {
			t.Fatalf("%s there are rows of %q, want %q", what, names, want)
		}
	}
	rows("before all is saved up", "g0", "g1", "own", "waits")
	_, err = s.DB().ExecContext(ctx, "update dibs_rate set full_ns = 0, not_before = 0 where group_key <> 'g1'")
	must(err)
	rows("after it", "g1", "own", "waits")
	_, err = s.ChangeQueue(ctx, "q", dibs.QueueChange{GroupRate: &dibs.Rate{}}.Apply)
	must(err)
	rows("without a rate of the queue", "own")
}

// A program that enqueues by the view does not start jobs beyond the rate either, nor forever none.
func TestJobsEnqueuedByTheViewFollowTheirGroupsRate(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), openStore(t, sqlite.Options{})
	if _, err := s.ChangeQueue(ctx, "q", dibs.QueueChange{GroupRate: &dibs.Rate{N: 1, Per: 24 * time.Hour, Burst: 1}, GroupLimit: new(9)}.Apply); err != nil {
		t.Fatal(err)
	}
	claim := func(want int) {
		t.Helper()
		jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 9})
		if err != nil || len(jobs) != want {
			t.Fatalf("claimed %d jobs, %v, want %d", len(jobs), err, want)
		}
	}
	for _, want := range []int{2, 0} {
		for range 3 {
			if _, err := s.DB().ExecContext(ctx, "insert into dibs_new_job (queue, group_key) values ('q', 'g')"); err != nil {
				t.Fatal(err)
			}
		}
		claim(want)
	}
}
