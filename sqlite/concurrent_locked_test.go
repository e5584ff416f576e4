package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/model"
)

// pass lets time pass.
func (c *contest) pass(d time.Duration) {
	c.Helper()
	if err := model.PassInFile(c.Context(), c.DB(), d); err != nil {
		c.Fatal(err)
	}
}

// The lease of a job ends whose row another transaction holds while a sweep looks, and is then rolled back: the next sweeps
// take the job away from its worker.
func TestASweepLooksAgainAtAJobThatIsHeld(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.enqueue(dibs.NewJob{}, dibs.NewJob{})
	jobs, err := c.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2, Lease: time.Minute})
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	ids := []int64{jobs[0].ID, jobs[1].ID}
	rows := c.Watched(t.Context(), func() {}, func(string, []any, func(string) error) error { return nil }) // without upkeep
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
