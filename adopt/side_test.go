package adopt_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// sided maps a table whose status a claim writes, with leases in the side table.
func sided() mapping.Mapping {
	return mapping.Mapping{
		Table: "work", ID: mapping.Columns{"id"}, Lease: time.Second, SideTable: true,
		Rows:      mapping.Rows{Unfinished: "status in ('new', 'busy')", Available: "status = 'new'"},
		Claim:     mapping.Claim{Set: mapping.Set{"status": "busy"}},
		Completed: mapping.Change{Set: mapping.Set{"status": "done"}},
		PutBack:   mapping.Change{Set: mapping.Set{"status": "new"}},
	}
}

func opened(t *testing.T, db *sql.DB, m mapping.Mapping) *adopt.Store {
	t.Helper()
	s, err := adopt.Open(t.Context(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// take claims up to n rows and fails unless it gets the wanted ones.
func take(t *testing.T, s *adopt.Store, n int, want ...int64) []*dibs.RawJob {
	t.Helper()
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: s.Queue(), Worker: "w", N: n})
	if err != nil {
		t.Fatal(err)
	}
	return these(t, jobs, want)
}

// these fails unless the jobs are the wanted ones.
func these(t *testing.T, jobs []*dibs.RawJob, want []int64) []*dibs.RawJob {
	t.Helper()
	got := []int64{}
	for _, j := range jobs {
		got = append(got, j.ID)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("claimed %v, want %v", got, want)
	}
	return jobs
}

// recovered claims until it gets the row, whose lease ends.
func recovered(t *testing.T, s *adopt.Store, id int64) *dibs.RawJob {
	t.Helper()
	for {
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: s.Queue(), Worker: "w2", N: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 1 {
			if jobs[0].ID != id {
				t.Fatalf("row %d was claimed, want %d", jobs[0].ID, id)
			}
			return jobs[0]
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestQueuesOfOneTableLeaveEachOthersLeases(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, lane text not null, status text not null default 'new')`)
		exec(t, db, `insert into work (id, lane) values (1, 'a'), (2, 'b')`)
		a, b := sided(), sided()
		a.Queue, a.Where = "a", "lane = 'a'"
		b.Queue, b.Where, b.Lease = "b", "lane = 'b'", time.Minute
		as, bs := opened(t, db, a), opened(t, db, b)
		take(t, as, 5, 1)
		held := take(t, bs, 5, 2)
		recovered(t, as, 1) // queue a must sweep while queue b holds its lease
		if err := bs.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}); err != nil {
			t.Errorf("queue a has taken b's lease: %v", err)
		}
	})
}

func TestARowThatSomebodyElsePutsBackIsNotStuck(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status text not null default 'new')`)
		exec(t, db, `insert into work (id) values (1)`)
		s := opened(t, db, sided())
		held := take(t, s, 5, 1)
		exec(t, db, `update work set status = 'new'`)
		again := recovered(t, s, 1) // its lease ends first
		if again.Attempt != 2 {
			t.Errorf("attempt %d", again.Attempt)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("the stale claim: %v", err)
		}
	})
}

func TestARowThatSomebodyElseEndsStaysAsTheyLeftIt(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status text not null default 'new')`)
		exec(t, db, `insert into work (id) values (1), (2), (3)`)
		s := opened(t, db, sided())
		held := take(t, s, 5, 1, 2, 3)
		exec(t, db, `update work set status = 'theirs' where id = 1`)
		exec(t, db, `delete from work where id = 2`)
		var outcomes []dibs.Outcome
		for _, j := range held {
			outcomes = append(outcomes, j.Lease().Complete(nil))
		}
		var lost *dibs.FinishError
		if err := s.Finish(t.Context(), outcomes); !errors.As(err, &lost) || fmt.Sprint(lost.Lost) != "[1 2]" {
			t.Errorf("finish: %v", err)
		}
		var left int
		if err := db.QueryRow(`select count(*) from dibs_adopted`).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d rows in the side table, %v", left, err)
		}
		var status string
		if err := db.QueryRow(`select status from work where id = 1`).Scan(&status); err != nil || status != "theirs" {
			t.Errorf("their row is %q, %v", status, err)
		}
	})
}

// Rows that other programs run count for the group's limit, if the table shows them.
func TestRunningRowsOfOthersCountInTheirGroup(t *testing.T) {
	for name, side := range map[string]bool{"in the row": false, "side table": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
				exec(t, db, `create table work (id integer primary key, status text not null default 'new', grp text, mark text)`)
				exec(t, db, `create unique index one_running on work (grp) where status = 'busy'`)
				exec(t, db, `insert into work (id, grp, status) values (1, 'a', 'new'), (2, 'b', 'new'), (3, 'a', 'busy'), (4, 'b', 'new')`)
				m := sided()
				if m.SideTable = side; !side {
					m.Claim.Token = "mark"
				}
				m.Group.Column = "grp"
				s := opened(t, db, m)
				take(t, s, 5, 2)
				exec(t, db, `update work set status = 'done' where id = 3`)
				take(t, s, 5, 1)
			})
		})
	}
}

// A claim that also writes into the rows takes two statements. The lease that it returns must be
// the stored one.
func TestAClaimTellsTheLeaseThatIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status text not null default 'new')`)
		exec(t, db, `insert into work (id) values (1), (2)`)
		s := opened(t, db, sided())
		for _, j := range take(t, s, 2, 1, 2) {
			var until int64
			if err := db.QueryRowContext(t.Context(), "select lease_until from dibs_adopted where key = $1", fmt.Sprintf("[%d]", j.ID)).Scan(&until); err != nil {
				t.Fatal(err)
			}
			if told := j.LeaseUntil.UnixMicro(); told != until {
				t.Errorf("row %d: the claim tells a lease until %d, kept is %d", j.ID, told, until)
			}
		}
	})
}
