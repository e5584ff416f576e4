package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// ticked is the SQL with which another process takes the tick of the schedule s, without the row of the job that it
// enqueues.
const ticked = "update dibs_schedule set last_tick = next_at, last_job = 1000000, next_at = next_at + 3600000000 where name = 's'"

// tickBeside makes a change of a schedule whose tick has come. Another process takes the tick just before the change's
// statement number moment, or, if moment is 0, just before the change gets its turn. It returns how many jobs were made
// for the tick, together with that of the other process, and how many statements the change has.
func tickBeside(t *testing.T, moment int, of dibs.Schedule, change func(*rowstore.Store) error) (jobs, statements int) {
	t.Helper()
	c := newContest(t)
	if err := c.StopSweeping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.SetSchedules(t.Context(), "service", []dibs.Schedule{of}); err != nil {
		t.Fatal(err)
	}
	c.sql("update dibs_schedule set since = since - 3601000000, next_at = since - 1000000")
	var tick int64
	if err := c.DB().QueryRowContext(t.Context(), "select next_at from dibs_schedule").Scan(&tick); err != nil {
		t.Fatal(err)
	}
	c.AddStatement("ticked", ticked)
	alone := false
	c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, _ bool) (err error) {
		if turn == rowstore.TurnTicks && moment == 0 && jobs == 0 {
			jobs++
			_, err = s.Exec("ticked")
		}
		alone = alone || turn == rowstore.TurnTicks
		return err
	}
	rows := c.Watched(t.Context(), func() { alone = false }, func(name string, _ []any, exec func(string) error) error {
		if name == "ticked" {
			return nil
		}
		if statements++; statements != moment || alone { // no other process takes ticks while the change has its turn
			return nil
		}
		jobs++
		return exec(ticked)
	})
	if err := change(rows); err != nil {
		t.Fatal(err)
	}
	c.turns.Taken = nil
	if _, err := c.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := c.List(t.Context(), admin.Filter{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if j.Tick.UnixMicro() == tick {
			jobs++
		}
	}
	return jobs, statements
}

// At whatever moment of a change of schedules another process takes a tick, one job is made for it.
func TestATickBesideAChangeOfItsScheduleComesOnce(t *testing.T) {
	t.Parallel()
	schedule := dibs.Schedule{Name: "s", Spec: "every 1h", Queue: "q", Kind: "k"}
	for name, change := range map[string]func(*rowstore.Store) error{
		"SetSchedules": func(s *rowstore.Store) error {
			return s.SetSchedules(t.Context(), "service", []dibs.Schedule{schedule})
		},
		"SetSchedule": func(s *rowstore.Store) error {
			_, err := s.SetSchedule(t.Context(), schedule)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for moment, statements := 0, 0; moment <= statements; moment++ {
				jobs := 0
				if jobs, statements = tickBeside(t, moment, schedule, change); jobs != 1 {
					t.Errorf("another process takes the tick before statement %d: %d jobs are made for it", moment, jobs)
				}
			}
		})
	}
}

// While another transaction takes ticks or changes schedules, a sweep leaves the ticks to it, and a change waits for it.
func TestSchedulesAreChangedInTurn(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	refusals := 0
	c.turns.Refuse = func(turn rowstore.Turn) bool {
		if turn == rowstore.TurnTicks {
			refusals++
		}
		return turn == rowstore.TurnTicks && refusals < 3
	}
	for again := true; again; {
		began := time.Now()
		_, err := c.SetSchedule(t.Context(), dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", Kind: "k"})
		again = errors.Is(err, dibs.ErrUnavailable) && time.Since(began) > time.Second // a slow machine: it has tried for long enough
		if !again && (err != nil || refusals != 3) {
			t.Errorf("after %d tries: %v", refusals, err)
		}
	}
	c.pass(3 * time.Second)
	jobs := func() int {
		t.Helper()
		if _, err := c.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		page, err := c.List(t.Context(), admin.Filter{Queue: "q"})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Jobs)
	}
	refusals = -1 << 30
	if n := jobs(); n > 0 {
		t.Errorf("a sweep makes %d jobs while another transaction has the turn", n)
	}
	c.turns.Refuse = nil
	if n := jobs(); n == 0 {
		t.Error("no job is made")
	}
}

// A claim sweeps now and then. The job that a tick of that sweep adds to a group does not keep it from the group's others.
func TestAClaimThatTicksFindsWhatIsDue(t *testing.T) {
	t.Parallel()
	s := openConcurrent(t, filepath.Join(t.TempDir(), "jobs.db"))
	due := dibs.NewJob{Queue: "q", Kind: "k", Group: "g"}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{due}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetSchedule(t.Context(), dibs.Schedule{Name: "s", Spec: "every 1s", Queue: "q", Kind: "k", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	if err := model.PassInFile(t.Context(), s.DB(), 2*time.Second); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		t.Errorf("the claim has found %d jobs, %v", len(jobs), err)
	}
}
