package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// TestReadsStayTheSameHoweverManyJobsThereAre counts the rows and entries of indexes that the server reads.
// The statements run again and again, or for pages. One database has ten times as many jobs as the other.
func TestReadsStayTheSameHoweverManyJobsThereAre(t *testing.T) {
	t.Parallel()
	var few []int
	for _, n := range []int{300, 3000} {
		s := openStore(t, mytest.Address(t))
		follower := fillAll(t, s, n)
		now := time.Now().UnixMicro()
		for i, of := range []struct {
			name string
			args []any
		}{
			{"due_queues", []any{`["ready", "later", "groups", "many", "none"]`, now, nil}},
			{"due_queues", []any{`["later", "many"]`, now, `["another"]`}},
			{"stats", []any{11, 6}},
			{"backlog", []any{"groups", "", 500, 10}},
			{"failures", []any{`["ready", "later", "groups"]`, 10, now, int64(1) << 60}},
			{"mend_followers", []any{follower - 1, 100}},
			{"mend_groups", []any{follower, 100}},
			{"miscounted", nil},
			{"sweep_due", []any{now}},
			{"asked_queues", []any{now}},
			{"grouped", []any{"many"}},
		} {
			var reads int
			for range 2 { // the first run also opens the tables
				var err error
				if reads, err = s.ReadBy(t.Context(), of.name, of.args...); err != nil {
					t.Fatal(err)
				}
			}
			if n == 300 {
				few = append(few, reads)
			} else if reads > few[i]+20 { // the tally may have some rows more
				t.Errorf("%s reads %d with 300 jobs and %d with 3,000", of.name, few[i], reads)
			}
		}
	}
}

// fillAll adds n jobs to each of some queues: they are ready, due later, blocked in a few groups or in many, or dead, and
// one comes after all of a queue: that one's id is returned.
func fillAll(t *testing.T, s *mysql.Store, n int) (follower int64) {
	t.Helper()
	later := time.Now().Add(time.Hour)
	var jobs []dibs.NewJob
	for i := range n {
		group := fmt.Sprint("g", i%5)
		jobs = append(jobs,
			dibs.NewJob{Queue: "ready", Kind: "k", Priority: new(i % 3)},
			dibs.NewJob{Queue: "later", Kind: "k", Priority: new(i % 3), RunAt: later},
			dibs.NewJob{Queue: "groups", Kind: "k", Group: group},
			dibs.NewJob{Queue: "groups", Kind: "k", Group: fmt.Sprint("alone", i)},
			dibs.NewJob{Queue: "many", Kind: "k", Group: group, RunAt: later},
		)
	}
	flow := []dibs.NewJob{}
	for range n {
		flow = append(flow, dibs.NewJob{Queue: "flows", Kind: "k", Ref: "one"})
	}
	flow = append(flow, dibs.NewJob{Queue: "flows", Kind: "k", After: []dibs.Dep{{Ref: "one"}}})
	added, err := s.Enqueue(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	enqueueAll(t, s, jobs)
	for {
		placed, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "groups", Worker: "w", N: 500, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if len(placed) == 0 {
			break
		}
	}
	claimed, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "ready", Worker: "w", N: n / 3, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var done []dibs.Outcome
	for i, j := range claimed {
		if i%2 == 0 {
			done = append(done, j.Lease().Complete(nil))
		} else {
			done = append(done, j.Lease().Die("it broke"))
		}
	}
	if err := s.Finish(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	return added[n].ID
}

func enqueueAll(t *testing.T, s *mysql.Store, jobs []dibs.NewJob) {
	t.Helper()
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), 500)]
		if _, err := s.Enqueue(t.Context(), some); err != nil {
			t.Fatal(err)
		}
		jobs = jobs[len(some):]
	}
}
