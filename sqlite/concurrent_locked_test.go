package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// pass lets time pass.
func (c *contest) pass(d time.Duration) {
	c.Helper()
	if err := model.PassInFile(c.Context(), c.DB(), d); err != nil {
		c.Fatal(err)
	}
}

// A lease ends while another transaction holds the job's row, so a sweep passes over the job. The other transaction is
// rolled back. The next sweeps take the job away from its worker.
func TestASweepLooksAgainAtAJobThatIsHeld(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.enqueue(dibs.NewJob{}, dibs.NewJob{})
	jobs, err := c.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2, Lease: time.Minute})
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	ids := []int64{jobs[0].ID, jobs[1].ID}
	rows := c.Watched(t.Context(), func() {}, func(string, []any, func(string) error) error { return nil }) // its sweeps have no upkeep
	sweep := func(want int) {
		t.Helper()
		if done, err := rows.Sweep(t.Context()); err != nil || done.Expired != want {
			t.Errorf("%d leases have ended, want %d, %v", done.Expired, want, err)
		}
		if found, err := c.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("found %v, %v", found, err)
		}
	}
	c.sql("insert into dibs_locked (id) values (?)", ids[0])
	c.pass(2 * time.Minute)
	sweep(1)
	c.pass(2 * time.Second)
	sweep(0)
	c.sql("delete from dibs_locked")
	c.pass(2 * time.Second)
	sweep(1)
	if got := c.claim(9); !slices.Equal(got, ids) {
		t.Errorf("claimed %v, want %v", got, ids)
	}
}

// A call that needs a job which another transaction holds is made again until that lets go, and changes nothing while it holds it.
// It never waits: the other may wait for what the call's transaction has locked.
func TestACallThatNeedsAHeldJobIsMadeAgain(t *testing.T) {
	t.Parallel()
	type call func(ctx context.Context, s *rowstore.Store, ids []int64) (any, error)
	live := map[string]call{
		"cancel": func(ctx context.Context, s *rowstore.Store, ids []int64) (any, error) {
			done, _, err := s.Cancel(ctx, ids)
			return done, err
		},
		"edit": func(ctx context.Context, s *rowstore.Store, ids []int64) (any, error) {
			return s.Edit(ctx, ids, admin.Edit{Priority: new(3)})
		},
		"replace": func(ctx context.Context, s *rowstore.Store, ids []int64) (any, error) {
			_, err := s.Enqueue(ctx, []dibs.NewJob{
				{Queue: "q", Kind: "k", UniqueKey: "2", IfHeld: dibs.HeldReplace}, {Queue: "q", Kind: "k", UniqueKey: "1", IfHeld: dibs.HeldReplace},
			})
			return ids, err
		},
	}
	ended := map[string]call{
		"requeue": func(ctx context.Context, s *rowstore.Store, ids []int64) (any, error) {
			return s.Requeue(ctx, ids, time.Time{})
		},
		"delete": func(ctx context.Context, s *rowstore.Store, ids []int64) (any, error) {
			return s.DeleteEnded(ctx, ids, time.Time{})
		},
	}
	for kind, calls := range map[string]map[string]call{"live": live, "ended": ended} {
		for name, make := range calls {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newContest(t)
				ids := c.enqueue(dibs.NewJob{UniqueKey: "1", Delay: time.Hour}, dibs.NewJob{UniqueKey: "2", Delay: time.Hour})
				if kind == "ended" {
					if _, _, err := c.Cancel(t.Context(), ids); err != nil {
						t.Fatal(err)
					}
				}
				c.sql("insert into dibs_locked (id) values (?)", ids[0])
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls, freedIn, begins := 0, 0, false // freedIn: the call in which the other transaction lets go; 0: in none
				rows := c.Watched(t.Context(), func() { calls, begins = calls+1, true }, func(name string, _ []any, exec func(string) error) error {
					switch {
					case freedIn == 0 && name == "present":
						cancel() // the caller waits no longer
					case freedIn == calls && begins:
						begins = false
						return exec("delete from dibs_locked")
					}
					return nil
				})
				if done, err := make(ctx, rows, ids); !errors.Is(err, dibs.ErrUnavailable) {
					t.Errorf("while another transaction holds a job: %v, %v", done, err)
				}
				calls, freedIn = 0, 3
				if done, err := make(t.Context(), rows, ids); err != nil || fmt.Sprint(done) != fmt.Sprint(ids) || calls != 3 {
					t.Errorf("after %d calls: %v, %v", calls, done, err)
				}
			})
		}
	}
}

// A call that needs a unique key which another transaction holds is made again until that lets go.
func TestACallThatNeedsAHeldKeyIsMadeAgain(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	tries, refused := 0, 2
	c.turns.RefuseKeys = func() bool { tries++; return tries <= refused }
	c.claims(9, c.enqueue(dibs.NewJob{UniqueKey: "key"})...)
	if tries != 3 {
		t.Errorf("tried %d times", tries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	refused = 1 << 30
	c.turns.Locked = func([]rowstore.UniqueKey) { cancel() }
	err := c.InTx(t.Context(), func(tx dibs.Tx) error {
		_, err := tx.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "key"}})
		return err
	})
	if !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("while another transaction holds the key: %v", err)
	}
}

// A job that ends just before a requeue reads it gets its unique key back only under the key's lock.
func TestARequeueHoldsNoKeyWithoutItsLock(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	id := c.enqueue(dibs.NewJob{UniqueKey: "key"})[0]
	ends := fmt.Sprintf(`
		insert into dibs_finished (id, queue, kind, state, finished_at, priority, run_at, attempt, excused, max_attempts, unique_key, unique_until, cancel_requested, created_at, payload)
		select id, queue, kind, 'cancelled', run_at, priority, run_at, attempt, excused, max_attempts, unique_key, unique_until, 1, created_at, payload from dibs_job where id = %d;
		delete from dibs_job where id = %[1]d`, id)
	calls, locked := 0, 0
	c.turns.Locked = func(keys []rowstore.UniqueKey) { locked += len(keys) }
	moment := map[int]string{1: "ended", 2: "ended_keys"} // the SQL that stands for the other transaction is rolled back with the first call
	rows := c.Watched(t.Context(), func() { calls, locked = calls+1, 0 }, func(name string, _ []any, exec func(string) error) error {
		if name == moment[calls] {
			return exec(ends)
		}
		return nil
	})
	done, err := rows.Requeue(t.Context(), []int64{id}, time.Time{})
	if err != nil || !slices.Equal(done, []int64{id}) || calls != 2 || locked != 1 {
		t.Errorf("requeued %v in %d calls, %d keys are locked, %v", done, calls, locked, err)
	}
}

// Another transaction holds one job of a group, blocked or with a place: the others start as far as there are places.
func TestAJobThatIsHeldDoesNotHoldUpItsGroup(t *testing.T) {
	t.Parallel()
	for placed, limit := range map[bool]int{false: 5, true: 3} {
		t.Run(fmt.Sprint("with a place=", placed), func(t *testing.T) {
			t.Parallel()
			c := newContest(t)
			c.set(dibs.QueueChange{GroupLimit: &limit, Paused: new(placed)})
			first := c.enqueue(dibs.NewJob{Group: "g", Priority: new(5)})[0]
			if placed {
				c.claims(9)
				if _, err := c.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.set(dibs.QueueChange{Paused: new(false)})
			}
			c.sql("insert into dibs_locked (id) values (?)", first)
			others := c.enqueue(dibs.NewJob{Group: "g", Priority: new(1)}, dibs.NewJob{Group: "g", Priority: new(2)}, dibs.NewJob{Group: "g", Priority: new(3)})
			start, last := others, first
			if placed {
				start, last = others[:2], others[2]
			}
			c.claims(9, start...)
			c.pass(time.Second)
			c.claims(9) // the admission finds the job held again
			c.sql("delete from dibs_locked")
			c.pass(time.Second)
			c.claims(9, last)
		})
	}
}
