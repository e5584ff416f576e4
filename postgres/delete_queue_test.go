package postgres

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
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
	// Workers of several queues ask first which are due.
	due, err := s.Due(t.Context(), []string{"plain", "later", "grouped", "grouped later", "nowhere"}, nil)
	if slices.Sort(due); err != nil || !slices.Equal(due, []string{"grouped", "grouped later", "later", "plain"}) {
		t.Errorf("due are %q, %v", due, err)
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

// Nothing is left of the counts of a queue that was deleted.
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

// Settings of a group hold, though another process has deleted the queue that this one knows.
func TestARateOfAGroupHoldsThoughItsQueueWasDeletedElsewhere(t *testing.T) {
	s := footprintStore(t)
	other, err := Open(t.Context(), s.pool.Config().ConnString(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	rate := dibs.GroupChange{Limit: new(10), Rate: &dibs.Rate{N: 1, Per: time.Hour}}
	for name, set := range map[string]func(queue string) error{
		"set": func(queue string) error { return s.ChangeGroup(t.Context(), queue, "g", rate.Apply) },
		"change": func(queue string) error {
			return s.ChangeGroup(t.Context(), queue, "g", func(g *dibs.Group) error { g.Limit, g.Rate = 10, *rate.Rate; return nil })
		},
		"transaction": func(queue string) error {
			return s.InTx(t.Context(), func(tx dibs.Tx) error { return tx.ChangeGroup(t.Context(), queue, "g", rate.Apply) })
		},
	} {
		if _, err := s.ChangeQueue(t.Context(), name, dibs.QueueChange{}.Apply); err != nil {
			t.Fatal(err)
		}
		if err := other.DeleteQueue(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
		if err := set(name); err != nil {
			t.Fatal(name, err)
		}
		batch := make([]dibs.NewJob, 5)
		for i := range batch {
			batch[i] = dibs.NewJob{Queue: name, Kind: "k", Group: "g"}
		}
		if _, err := s.Enqueue(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: name, Worker: "w", N: 5}); err != nil || len(jobs) != 1 {
			t.Errorf("%s: %d jobs of a group started, its rate is one an hour; %v", name, len(jobs), err)
		}
	}
}

// Settings are read again while others enqueue, as by whoever makes a new queue beside a thousand callers.
func TestEnqueuesBesideReadsOfSettingsSucceed(t *testing.T) {
	needs.Race(t)
	s := footprintStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	var readers, callers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.readQueues(ctx, []string{"q"}); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 16 {
		callers.Go(func() {
			for range 50 {
				if _, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	cancel()
	readers.Wait()
}
