package postgres

import (
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
)

// An open transaction has enqueued, so nobody sees its jobs, when the queue is deleted. After its commit a claim finds
// the job that is due, and upkeep makes the queue anew for all of them, also where the first waits in a group for its time.
func TestJobsOfAnOpenTransactionAreFoundThoughTheirQueueWasDeleted(t *testing.T) {
	s := footprintStore(t)
	enqueued := map[string]dibs.NewJob{
		"plain": {Kind: "k"}, "later": {Kind: "k", Delay: time.Hour}, "grouped": {Kind: "k", Group: "g"}, "grouped later": {Kind: "k", Group: "g", Delay: time.Hour},
	}
	for name := range enqueued {
		if _, err := s.ChangeQueue(t.Context(), name, func(q *dibs.Queue) error { q.MaxAttempts = 3; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	err := s.InTx(t.Context(), func(tx dibs.Tx) error {
		for name, j := range enqueued {
			j.Queue = name
			if _, err := tx.Enqueue(t.Context(), []dibs.NewJob{j}); err != nil {
				return err
			}
		}
		for name := range enqueued {
			if err := s.DeleteQueue(t.Context(), name, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "plain", Worker: "w", N: 5})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("claimed %d jobs, %v", len(jobs), err)
	}
	for range 2 { // the first sweep notes the queues, the second makes them
		s.sweeper.prunedAt = time.Time{}
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	queues, err := s.Queues(t.Context())
	if err != nil || len(queues) != len(enqueued) {
		t.Fatalf("queues after upkeep: %v, %v", queues, err)
	}
	for _, q := range queues {
		if q != dibs.DefaultSettings(q.Name) {
			t.Errorf("made anew: %+v", q)
		}
	}
	if jobs, err = s.Claim(t.Context(), dibs.ClaimRequest{Queue: "grouped", Worker: "w", N: 5}); err != nil || len(jobs) != 1 {
		t.Errorf("claimed %d jobs of a group, %v", len(jobs), err)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check: %v, %v", found, err)
	}
}

// The counts of a queue that was deleted leave nothing.
func TestCountsOfADeletedQueueAreDropped(t *testing.T) {
	s := footprintStore(t)
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	if err == nil {
		err = s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)})
	}
	if err == nil {
		err = s.DeleteQueue(t.Context(), "q", true)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.sweeper.prunedAt = time.Time{}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"tally", "turn", "queue", "wake", "wake_list", "group_limit", "rate", "start", "unique_window", "finished", "payload", "job"} {
		var n int
		if err := s.pool.QueryRow(t.Context(), "select count(*) from "+s.o.schema()+"."+table).Scan(&n); err != nil || n > 0 {
			t.Errorf("%d rows are left in %s, %v", n, table, err)
		}
	}
}
