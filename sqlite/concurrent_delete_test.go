package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// jobsOf counts the jobs of the queue q, and those that have no row of a queue.
func (c *contest) jobsOf() (all, stranded int) {
	c.Helper()
	err := c.DB().QueryRowContext(c.Context(), `
		select count(*), count(*) filter (where not exists (select 1 from dibs_queue q where q.name = j.queue))
		from dibs_job j where j.queue = 'q'`).Scan(&all, &stranded)
	if err != nil {
		c.Fatal(err)
	}
	return all, stranded
}

// At whatever moment of an enqueue another transaction deletes the queue, the job has its queue in the end.
func TestAJobThatIsEnqueuedBesideADeletionHasItsQueue(t *testing.T) {
	t.Parallel()
	for moment := 0; ; moment++ { // 0: just before the enqueue gets its turn; otherwise before a statement
		c := newContest(t)
		c.set(dibs.QueueChange{})
		c.AddStatement("deletion", "delete from dibs_queue where name = 'q'")
		statements, keeps := 0, false
		c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, _ bool) (err error) {
			if turn == rowstore.TurnQueue && moment == 0 {
				_, err = s.Exec("deletion")
			}
			keeps = keeps || turn == rowstore.TurnQueue
			return err
		}
		rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
			if name == "deletion" {
				return nil
			}
			if statements++; statements != moment || keeps { // a deletion does not get its turn while others share it
				return nil
			}
			return exec("delete from dibs_queue where name = 'q'")
		})
		if _, err := rows.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		if all, stranded := c.jobsOf(); all != 1 || stranded > 0 {
			t.Errorf("deleted before statement %d: %d jobs, %d of them without a queue", moment, all, stranded)
		}
		if statements < moment {
			break
		}
	}
}

// At whatever moment of a deletion another transaction enqueues, the queue is there if the job is.
func TestADeletionBesideAnEnqueueLeavesNoJobWithoutItsQueue(t *testing.T) {
	t.Parallel()
	const another = "insert into dibs_job (queue, kind, priority, run_at, gate, max_attempts, created_at, payload) values ('q', 'k', 1, 0, 0, 1, 0, '1')"
	refused, late := 0, 0
	for moment := 0; ; moment++ { // 0: just before the deletion gets its turn; otherwise before a statement
		c := newContest(t)
		c.set(dibs.QueueChange{})
		c.AddStatement("another", another)
		statements, alone, after := 0, false, false
		c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, shared bool) (err error) {
			if turn == rowstore.TurnQueue && moment == 0 {
				_, err = s.Exec("another")
			}
			alone = alone || turn == rowstore.TurnQueue && !shared
			return err
		}
		rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
			if name == "another" {
				return nil
			}
			if statements++; statements != moment {
				return nil
			}
			if after = alone; after { // the enqueue waits until the deletion is over
				return nil
			}
			return exec(another)
		})
		err := rows.DeleteQueue(t.Context(), "q", false)
		c.turns.Taken = nil
		switch {
		case after:
			late++
			c.enqueue(dibs.NewJob{})
		case errors.Is(err, dibs.ErrQueueInUse):
			refused++
		}
		if err != nil && !errors.Is(err, dibs.ErrQueueInUse) {
			t.Fatal(err)
		}
		if statements < moment {
			break
		}
		if err != nil { // the SQL that stood for another transaction was rolled back with the deletion
			if list, err := c.Queues(t.Context(), "q"); err != nil || len(list) != 1 {
				t.Errorf("a deletion that was refused leaves %v, %v", list, err)
			}
			continue
		}
		if all, stranded := c.jobsOf(); all != 1 || stranded > 0 {
			t.Errorf("enqueued before statement %d: %d jobs, %d of them without a queue", moment, all, stranded)
		}
	}
	if refused == 0 || late == 0 {
		t.Errorf("%d deletions were refused, %d were over before the enqueue", refused, late)
	}
}

// A queue into which an open transaction enqueues is not deleted; while one is deleted, an enqueue waits for that.
func TestADeletionAndAnEnqueueWaitForNobodyForLong(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{})
	c.turns.Refuse = func(turn rowstore.Turn) bool { return turn == rowstore.TurnQueue }
	if err := c.DeleteQueue(t.Context(), "q", false); !errors.Is(err, dibs.ErrQueueInUse) {
		t.Errorf("while an enqueue is open: %v", err)
	}
	refusals := 0
	c.turns.Refuse = func(turn rowstore.Turn) bool {
		refusals++
		return turn == rowstore.TurnQueue && refusals < 3
	}
	c.claims(9, c.enqueue(dibs.NewJob{})...)
	c.turns.Refuse = func(turn rowstore.Turn) bool { return turn == rowstore.TurnQueue }
	if _, err := c.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("while a deletion stands still: %v", err)
	}
	err := c.InTx(t.Context(), func(tx dibs.Tx) error {
		_, err := tx.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
		return err
	})
	if !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("in a caller's transaction: %v", err)
	}
}

// A queue that is deleted leaves nothing for which admissions would look for ever.
func TestADeletedQueueAsksForNoPlaces(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{GroupRate: &dibs.Rate{N: 100, Per: time.Second, Burst: 100}})
	c.enqueue(dibs.NewJob{Group: "g"})
	jobs, err := c.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	if err := c.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteQueue(t.Context(), "q", true); err != nil {
		t.Fatal(err)
	}
	var wakes, starts int
	if err := c.DB().QueryRowContext(t.Context(), "select (select count(*) from dibs_wake), (select count(*) from dibs_start)").Scan(&wakes, &starts); err != nil || wakes+starts > 0 {
		t.Errorf("%d wake rows and %d starts are left, %v", wakes, starts, err)
	}
}
