package sqlite_test

import (
	"testing"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// limitSet is how another transaction sets a limit.
const limitSet = "update dibs_queue set concurrency = 1, version = version + 1 where name = 'q' and concurrency <> 1"

// limitedBeside makes a call many times on fresh stores. Before each of the call's statements in turn, another
// transaction commits text, which sets a limit of 1. In the end the queue must have this limit and be paused. SQL
// stands for the other transaction. If the call is made again, that SQL is rolled back with its first try, so it runs
// first in the second try.
func limitedBeside(t *testing.T, text string, prepare func(*contest), make func(*contest, *rowstore.Store) error) {
	t.Helper()
	for moment, statements := 0, 1; moment <= statements; moment++ {
		c, call, n := newContest(t), 0, 0
		prepare(c)
		err := make(c, c.Watched(t.Context(), func() { call, n = call+1, 0 }, func(_ string, _ []any, exec func(string) error) error {
			if n++; moment > 0 && (call == 1 && n == moment || call == 2 && n == 1) {
				return exec(text)
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Queues(t.Context(), "q")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if q := list[0]; moment == 0 {
			statements = n
		} else if q.Concurrency != 1 || !q.Paused {
			t.Errorf("another transaction sets a limit of 1 before statement %d of %d: it is %d, paused %v", moment, statements, q.Concurrency, q.Paused)
		}
	}
}

func unlimited(c *contest) { c.set(dibs.QueueChange{}) }

// A ChangeQueue that meets another change calls its function again.
func TestAChangeOfAQueueThatIsOvertakenIsMadeAgain(t *testing.T) {
	t.Parallel()
	limitedBeside(t, limitSet, unlimited, func(c *contest, rows *rowstore.Store) error {
		call := 0
		_, err := rows.ChangeQueue(t.Context(), "q", func(q *dibs.Queue) error {
			if call++; call == 2 { // the SQL that stood for the other transaction was rolled back
				c.sql(limitSet)
			}
			q.Paused = true
			return nil
		})
		return err
	})
}

// At whatever moment of an enqueue that makes a queue another transaction makes it with other settings, these stay.
func TestAnEnqueueKeepsTheSettingsOfAQueueThatAnotherMakes(t *testing.T) {
	t.Parallel()
	var columns string
	c := newContest(t)
	if err := c.DB().QueryRowContext(t.Context(), "select group_concat(name) from pragma_table_info('dibs_queue') where name <> 'name'").Scan(&columns); err != nil {
		t.Fatal(err)
	}
	another := "insert or replace into dibs_queue (name, " + columns + ") select 'q', " + columns + " from dibs_queue where name = 'model'"
	limitedBeside(t, another, func(c *contest) {
		if _, err := c.ChangeQueue(t.Context(), "model", dibs.QueueChange{Concurrency: new(1), Paused: new(true)}.Apply); err != nil {
			t.Fatal(err)
		}
	}, func(_ *contest, rows *rowstore.Store) error {
		_, err := rows.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
		return err
	})
}

// A claim that began before its queue got a limit may commit after it: its jobs count, also while others hold some of them.
func TestAClaimThatBeganWithoutTheLimitCounts(t *testing.T) {
	t.Parallel()
	const limited = "update dibs_queue set concurrency = 1, version = version + 1 where name = 'q'; insert into dibs_limit_set (queue) values ('q')"
	c := newContest(t)
	c.set(dibs.QueueChange{})
	c.enqueue(make([]dibs.NewJob, 5)...)
	met := false
	rows := c.Watched(t.Context(), func() {}, func(name string, _ []any, exec func(string) error) error {
		if name != "claim" || met {
			return nil
		}
		met = true // a change of another transaction commits
		return exec(limited)
	})
	jobs, err := rows.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2})
	if err != nil || len(jobs) != 2 {
		t.Fatal(jobs, err)
	}
	finish := func(j *dibs.RawJob) {
		t.Helper()
		if err := c.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	c.sql("insert into dibs_locked (id) values (?)", jobs[0].ID)
	c.claims(9)
	finish(jobs[1])
	c.claims(9)
	c.sql("delete from dibs_locked")
	c.claims(9)
	finish(jobs[0])
	c.claims(9, jobs[1].ID+1)
	c.claims(9)
	var left int
	if err := c.DB().QueryRowContext(t.Context(), "select count(*) from dibs_limit_set").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d times the running jobs are still to be counted, %v", left, err)
	}
}

// At whatever moment of a ChangeGroup another transaction sets the group's limit, the function has seen that in the end.
func TestAChangeOfAGroupThatIsOvertakenIsMadeAgain(t *testing.T) {
	t.Parallel()
	const another = "update dibs_group_limit set places = 7"
	for moment, most := 0, 1; moment <= most; moment++ { // 0: just before the change gets its turn; otherwise before a statement
		c := newContest(t)
		if err := c.ChangeGroup(t.Context(), "q", "g", dibs.GroupChange{Limit: new(5)}.Apply); err != nil {
			t.Fatal(err)
		}
		c.AddStatement("another", another)
		statements, round, met, alone := 0, 0, false, false
		c.turns.Taken = func(s *rowstore.Session, turn rowstore.Turn, _ bool) (err error) {
			if turn == rowstore.TurnGroup && moment == 0 && round == 1 && !alone {
				met = true
				_, err = s.Exec("another")
			}
			alone = alone || turn == rowstore.TurnGroup
			return err
		}
		rows := c.Watched(t.Context(), func() { alone = false }, func(name string, _ []any, exec func(string) error) error {
			if name == "another" || round > 1 {
				return nil
			}
			if statements++; statements != moment || alone {
				return nil
			}
			met = true
			return exec(another)
		})
		err := rows.ChangeGroup(t.Context(), "q", "g", func(g *dibs.Group) error {
			if round++; round == 2 { // the SQL that stood for the other transaction was rolled back
				c.sql(another)
			}
			g.Limit++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, statements)
		want := map[bool]int{false: 6, true: 8}[met]
		list, err := c.Groups(t.Context(), "q")
		if err != nil || len(list) != 1 || list[0].Limit != want {
			t.Errorf("another transaction sets a limit before statement %d: %v, want %d, %v", moment, list, want, err)
		}
	}
}
