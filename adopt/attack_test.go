package adopt_test

import (
	"database/sql"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

const attacked = `create table task (id integer primary key, lane text not null default 'a', grp text, mark text, who text, tries integer not null default 0,
	at timestamp, amount numeric, other integer unique, done integer)`

// Open refuses mappings that look right but would break a promise.
func TestMappingsThatWouldBreakAPromise(t *testing.T) {
	for name, bad := range map[string]struct {
		field  string
		change func(*mapping.Mapping)
	}{
		"a claim that changes the id":          {"claim.set", func(m *mapping.Mapping) { m.Claim.Set = mapping.Set{"id": 7} }},
		"a token in the id":                    {"claim.locked_by", func(m *mapping.Mapping) { m.Claim.LockedBy = "mark" }},
		"a column that is set twice":           {"claim.set", func(m *mapping.Mapping) { m.Claim.Set = mapping.Set{"mark": "x"} }},
		"a lease and a delay in one column":    {"not_before", func(m *mapping.Mapping) { m.Claim.Timeout, m.NotBefore = "at", "at" }},
		"a group that a lock alone would hold": {"group", func(m *mapping.Mapping) { m.Claim, m.Group.Column = mapping.Claim{}, "grp" }},
		"a group of numbers with a fraction":   {"group.column", func(m *mapping.Mapping) { m.Group.Column = "amount" }},
		"an id that can be null":               {"id", func(m *mapping.Mapping) { m.ID = mapping.Columns{"other"} }},
		"a number that is none":                {"completed.set", func(m *mapping.Mapping) { m.Completed.Set = mapping.Set{"done": math.NaN()} }},
		"a queue's name with control characters": {"queue", func(m *mapping.Mapping) {
			m.Queue = "a\x00worker\x00"
		}},
		"attempts that fence, set back": {"put_back.set", func(m *mapping.Mapping) {
			m.Claim, m.Available, m.PutBack.Set = mapping.Claim{Attempts: "tries", LockedBy: "who"}, "who is null", mapping.Set{"tries": 0}
		}},
		"a string that is read in two ways": {"available", func(m *mapping.Mapping) { m.Available = "mark is null and lane = 'e'\n'\\' ) or (1 = 1 --'\n" }},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
				exec(t, db, attacked)
				m := task()
				bad.change(&m)
				_, err := adopt.Open(t.Context(), db, m)
				var wrong *dibs.InvalidError
				if !errors.As(err, &wrong) || wrong.Field != bad.field {
					t.Errorf("opened: %v, want an error about %s", err, bad.field)
				}
			})
		})
	}
}

// A leased row that another program moves to another queue loses its lease and its place in its
// group.
func TestARowThatMovesToAnotherQueueLeavesItsGroup(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, attacked)
		exec(t, db, `insert into task (id, grp) values (1, 'x'), (2, 'x')`)
		m := task()
		m.Claim, m.Available, m.SideTable, m.Where, m.Lease = mapping.Claim{}, "", true, "lane = 'a'", time.Second
		m.Group.Column = "grp"
		s := opened(t, db, m)
		take(t, s, 2, 1)
		exec(t, db, `update task set lane = 'b' where id = 1`)
		recovered(t, s, 2)
	})
}

// If only a row lock holds a claim, other transactions cannot finish it.
func TestALockHoldsNothingOutsideOfItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, workTable)
		exec(t, db, `insert into work (id, pri) values (1, 0)`)
		s := opened(t, db, ways()["lock"])
		tx := begin(t, db, pg)
		done := []dibs.Outcome{takeIn(t, s.SQLTx(tx), 1, 1)[0].Lease().Complete(nil)}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := s.Finish(t.Context(), done); !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("without a transaction: %v", err)
		}
		tx = begin(t, db, pg)
		if err := s.SQLTx(tx).Finish(t.Context(), done); !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("in another transaction: %v", err)
		}
		_ = tx.Rollback() // the test keeps no changes of this transaction
	})
}

// Leases end also within a long transaction: one that has ended is lost.
func TestALeaseEndsInALongTransactionToo(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		exec(t, db, workTable)
		exec(t, db, `insert into work (id, pri) values (1, 0), (2, 0)`)
		m := ways()["side"]
		m.Lease = 200 * time.Millisecond
		s := opened(t, db, m)
		held := take(t, s, 1, 1)[0]
		tx := begin(t, db, pg)
		time.Sleep(time.Until(held.LeaseUntil) + 50*time.Millisecond) // the end of a lease is no event to wait for
		if err := s.SQLTx(tx).Finish(t.Context(), []dibs.Outcome{held.Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("finished: %v", err)
		}
		job := takeIn(t, s.SQLTx(tx), 1, 2)[0]
		if !job.ClaimedAt.After(held.LeaseUntil) {
			t.Errorf("claimed at %v, before the lease that had ended at %v", job.ClaimedAt, held.LeaseUntil)
		}
		_ = tx.Rollback() // the test keeps no changes of this transaction
	})
}

// Attempts are limited even if "available" lets rows go by itself after some time.
func TestAttemptsAreLimitedWhereTimeMakesAvailable(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, attacked)
		exec(t, db, `insert into task (id, tries) values (1, 0), (2, 2)`)
		m := task()
		m.Available, m.Claim = "mark is null or lane = 'again'", mapping.Claim{Token: "mark", Attempts: "tries", Set: mapping.Set{"lane": "b"}}
		m.MaxAttempts, m.Dead = 2, &mapping.Change{Set: mapping.Set{"done": 2}}
		m.Claim.Timeout, m.Lease = "at", 100*time.Millisecond
		s := opened(t, db, m)
		take(t, s, 5, 1)
		exec(t, db, `update task set lane = 'again' where id = 1`)
		take(t, s, 5, 1)
		exec(t, db, `update task set lane = 'again' where id = 1`)
		for dead := 0; dead < 2; time.Sleep(20 * time.Millisecond) {
			take(t, s, 5)
			if err := db.QueryRow(`select count(*) from task where done = 2`).Scan(&dead); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A claim returns rows in the claim order, even if it writes a column of that order.
func TestTheOrderIsThatOfTheChoice(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, attacked)
		exec(t, db, `insert into task (id, at) values (1, '2026-01-03 00:00:00'), (2, '2026-01-02 00:00:00'), (3, '2026-01-01 00:00:00')`)
		m := task()
		m.Order, m.Claim.StartedAt = mapping.Columns{"at"}, "at"
		take(t, opened(t, db, m), 3, 3, 2, 1)
	})
}

// A row that the table refuses to have put back does not keep others from being claimed.
func TestARowThatCannotGoBackStopsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, attacked)
		exec(t, db, `create unique index one_new on task (grp) where mark is null`)
		exec(t, db, `insert into task (id, grp) values (1, 'x'), (2, 'y')`)
		m := task()
		m.Claim.Timeout, m.Lease = "at", 100*time.Millisecond
		s := opened(t, db, m)
		take(t, s, 1, 1)
		exec(t, db, `insert into task (id, grp) values (3, 'x')`) // this row keeps row 1 from being put back
		for len(s.PassedOver()) == 0 {                            // This lasts until the lease of row 1 has ended.
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		take(t, opened(t, db, m), 5, 2, 3)
	})
}
