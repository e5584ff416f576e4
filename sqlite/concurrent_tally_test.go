package sqlite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// counts returns how many rows of counts there are, and how many jobs have completed by the statistics and by the
// history.
func (c *contest) counts() (rows, completed, succeeded int) {
	c.Helper()
	if err := c.DB().QueryRowContext(c.Context(), "select count(*) from dibs_tally").Scan(&rows); err != nil {
		c.Fatal(err)
	}
	stats, err := c.Stats(c.Context())
	if err != nil || len(stats) != 1 {
		c.Fatal(stats, err)
	}
	minutes, err := c.History(c.Context(), []string{"q"}, time.Hour)
	if err != nil {
		c.Fatal(err)
	}
	for _, m := range minutes {
		succeeded += int(m.Succeeded)
	}
	return rows, int(stats[0].Completed), succeeded
}

// ends runs n jobs, and ends each in a transaction of its own.
func (c *contest) ends(n int) {
	c.Helper()
	c.enqueue(make([]dibs.NewJob, n)...)
	jobs, err := c.Claim(c.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: n})
	if err != nil || len(jobs) != n {
		c.Fatal(jobs, err)
	}
	for _, j := range jobs {
		if err := c.Finish(c.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
			c.Fatal(err)
		}
	}
}

// Transactions that end jobs of one queue change no row that another of them has written: none waits for another. A sweep adds
// the rows up.
func TestCountsAreAppended(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	c.set(dibs.QueueChange{})
	if err := c.StopSweeping(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.ends(5)
	if rows, completed, succeeded := c.counts(); rows < 5 || completed != 5 || succeeded != 5 {
		t.Errorf("5 transactions have written %d rows, which count %d and %d jobs", rows, completed, succeeded)
	}
	if _, err := c.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rows, completed, succeeded := c.counts(); rows > 2 || completed != 5 || succeeded != 5 { // there may be a row for each of two minutes
		t.Errorf("a sweep has left %d rows, which count %d and %d jobs", rows, completed, succeeded)
	}
}

// What others count while a sweep adds up is not lost, and counts once, at whatever moment it comes.
func TestCountsBesideASweepAreKept(t *testing.T) {
	t.Parallel()
	const another = "insert into dibs_tally (queue, minute, waiting, blocked, running, completed, dead, cancelled, enqueued, claimed, succeeded, failed, wait_us, run_us) " +
		"values ('q', %d, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0)"
	for _, age := range []time.Duration{0, 30 * time.Minute} {
		for _, moment := range []string{"tally_rows", "fold_tally", "fold_history", "drop_folded", "drop_history"} {
			t.Run(moment+" after "+age.String(), func(t *testing.T) {
				t.Parallel()
				c := newContest(t)
				c.set(dibs.QueueChange{})
				if err := c.StopSweeping(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.ends(3)
				if err := model.PassInFile(t.Context(), c.DB(), age); err != nil {
					t.Fatal(err)
				}
				met, minute := 0, time.Now().Add(-age).Unix()/60
				rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
					if name != moment {
						return nil
					}
					met++
					return exec(fmt.Sprintf(another, minute))
				})
				if _, err := rows.Sweep(t.Context()); err != nil || met != 1 {
					t.Fatalf("met %d times, %v", met, err)
				}
				for range 2 {
					if _, completed, succeeded := c.counts(); completed != 4 || succeeded != 4 {
						t.Errorf("%d and %d of 4 jobs are counted", completed, succeeded)
					}
					if _, err := c.Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// At whatever moment of a repair another one corrects the same counts, they are corrected once.
func TestTwoRepairsCorrectCountsOnce(t *testing.T) {
	t.Parallel()
	another := fmt.Sprintf("insert into dibs_tally (queue, minute, waiting, blocked, running, completed, dead, cancelled, enqueued, claimed, succeeded, failed, wait_us, run_us) "+
		"values ('q', %d, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)", time.Now().Unix()/60)
	for moment, most := 0, 1; moment <= most; moment++ { // 0: just before the repair gets its turn; otherwise before a statement
		c := newContest(t)
		c.enqueue(dibs.NewJob{})
		c.sql("update dibs_tally set waiting = waiting - 1")
		c.AddStatement("another", another)
		statements, alone := 0, false
		c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, _ bool) (err error) {
			if turn == rowstore.TurnSweep && moment == 0 {
				_, err = s.Exec("another")
			}
			alone = alone || turn == rowstore.TurnSweep
			return err
		}
		rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
			if name == "another" {
				return nil
			}
			if statements++; statements != moment || alone {
				return nil
			}
			return exec(another)
		})
		if _, err := rows.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		most = max(most, statements)
		if found, err := c.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("another repair before statement %d: found %v, %v", moment, found, err)
		}
	}
	c := newContest(t)
	c.turns.Refuse = func(turn rowstore.Turn) bool { return turn == rowstore.TurnSweep }
	if _, err := c.Repair(t.Context()); !errors.Is(err, dibs.ErrUnavailable) {
		t.Errorf("while another transaction repairs: %v", err)
	}
}
