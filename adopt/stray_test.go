package adopt_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/advice"
	"github.com/dibs-queue/dibs/adopt/mapping"
)

// stuckRows asserts that Stuck and Check report that many rows.
func stuckRows(t *testing.T, s *adopt.Store, db *sql.DB, m mapping.Mapping, field, text string) {
	t.Helper()
	all, err := advice.Stuck(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Field != field || !strings.HasPrefix(all[0].Text, text) {
		t.Errorf("stuck are %s, want %s: %s", listing(all), field, text)
	}
	found(t, db, advice.SeverityWarning, field, text, m)
}

func TestStraysAreTold(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status text not null default 'new')`)
		exec(t, db, `insert into work (id, status) values (1, 'busy'), (2, 'busy'), (3, 'new'), (4, 'done')`)
		m := sided()
		m.Lease = time.Hour
		s := opened(t, db, m)
		held := take(t, s, 5, 3)
		stuckRows(t, s, db, m, "side_table", "2 rows are in progress by the table's own columns, but dibs holds no lease on them")
		page, err := s.List(t.Context(), admin.Filter{State: dibs.Running})
		if err != nil {
			t.Fatal(err)
		}
		these(t, page.Jobs, []int64{1, 2, 3})
		stats, err := s.Stats(t.Context())
		if err != nil || stats[0].Waiting != 0 || stats[0].Running != 3 {
			t.Errorf("stats are %+v, %v", stats, err)
		}
		// The advised statement puts back the stuck rows, but not those with a lease.
		all, err := advice.Stuck(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		_, advised, _ := strings.Cut(all[0].Advice, "put them back: ")
		exec(t, db, advised)
		take(t, s, 5, 1, 2)
		if err := s.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil)}); err != nil {
			t.Error(err)
		}
		if all, err := advice.Stuck(t.Context(), s); err != nil || len(all) > 0 {
			t.Errorf("still stuck: %s, %v", listing(all), err)
		}
	})
}

func TestStraysAreTakenWhenTheirTimeIsOver(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		at, long := "text", "datetime('now', '-1 day')"
		if pg {
			at, long = "timestamptz", "now() - interval '1 day'"
		}
		exec(t, db, `create table work (id integer primary key, status text not null default 'new', started_at `+at+`)`)
		exec(t, db, `insert into work (id, status, started_at) values (1, 'new', null), (2, 'busy', `+long+`), (3, 'busy', current_timestamp), (4, 'busy', null)`)
		m := sided()
		m.Claim.StartedAt, m.Lease = "started_at", time.Minute
		s := opened(t, db, m)
		held := take(t, s, 5, 1, 2)
		if held[1].Attempt != 1 {
			t.Errorf("attempt %d", held[1].Attempt)
		}
		stuckRows(t, s, db, m, "side_table", "1 rows are in progress by the table's own columns, but dibs holds no lease on them")
		// A row with a lease is no stray, however long its handler runs.
		exec(t, db, `update work set started_at = `+long)
		if swept, err := s.Sweep(t.Context()); err != nil || swept.Expired != 2 {
			t.Errorf("swept %+v, %v", swept, err)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Complete(nil), held[1].Lease().Complete(nil)}); err != nil {
			t.Error(err)
		}
		take(t, s, 5, 3, 4)
	})
}

// Check reports rows in each state in which no claim takes them.
func TestRowsInNoStateAreTold(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, pg bool) {
		at, far := "text", "datetime('now', '+5 years')"
		if pg {
			at, far = "timestamptz", "'infinity'"
		}
		exec(t, db, `create table work (id integer primary key, status text, kind text, nb `+at+`, mark text, ends `+at+`)`)
		exec(t, db, `insert into work (id, status, kind, nb) values (1, null, 'k', null), (2, 'new', 'k', `+far+`), (3, 'new', null, null), (4, 'new', 'k', null)`)
		exec(t, db, `insert into work (id, status, kind, mark) values (5, 'new', 'k', 'somebody')`)
		m := mapping.Mapping{
			Table: "work", ID: mapping.Columns{"id"}, Kind: "kind",
			Rows:      mapping.Rows{Unfinished: "status <> 'done'", Available: "mark is null", NotBefore: "nb"},
			Claim:     mapping.Claim{Token: "mark", Timeout: "ends"},
			Completed: mapping.Change{Set: mapping.Set{"status": "done"}},
		}
		found(t, db, advice.SeverityWarning, "unfinished", "1 rows have no state", m)
		found(t, db, advice.SeverityNote, "not_before", "1 available rows wait for more than a year", m)
		found(t, db, advice.SeverityNote, "kind", "1 available rows have no kind", m)
		s := opened(t, db, m)
		stuckRows(t, s, db, m, "claim", "1 rows are running, but without the time that would end their lease")
		take(t, s, 5, 3, 4)
	})
}

// If only the number of attempts tells claims apart, a release counts as an attempt. A row whose
// last attempt was released is dead, and does not stay unfinished for ever.
func TestARowWithoutAttemptsLeftIsNotForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, `create table work (id integer primary key, status text not null default 'new', who text, tries integer not null default 0)`)
		exec(t, db, `insert into work (id) values (1)`)
		m := sided()
		m.SideTable, m.MaxAttempts = false, 1
		m.Claim.LockedBy, m.Claim.Attempts = "who", "tries"
		m.Dead = &mapping.Change{Set: mapping.Set{"status": "failed"}}
		s := opened(t, db, m)
		held := take(t, s, 1, 1)
		if err := s.Finish(t.Context(), []dibs.Outcome{held[0].Lease().Release()}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var status string
		if err := db.QueryRow("select status from work").Scan(&status); err != nil || status != "failed" {
			t.Errorf("the row is %q, %v", status, err)
		}
	})
}

// SQLite allows nulls in primary keys. A row without an id must not keep others from being claimed.
func TestARowWithoutAnIDStopsNobody(t *testing.T) {
	for name, side := range map[string]bool{"in the row": false, "side table": true} {
		t.Run(name, func(t *testing.T) {
			db, err := sql.Open("sqlite", file(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			exec(t, db, `create table work (id text primary key, at integer not null, status text not null default 'new', mark text)`)
			exec(t, db, `insert into work (id, at) values (null, 1), (null, 2), ('a', 3)`)
			m := sided()
			m.Order = mapping.Columns{"at"}
			if m.SideTable = side; !side {
				m.Claim.Token = "mark"
			}
			s := opened(t, db, m)
			jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "work", Worker: "w", N: 1})
			if err != nil || len(jobs) != 1 || jobs[0].Key != "a" {
				t.Errorf("claimed %v, %v", jobs, err)
			}
			found(t, db, advice.SeverityWarning, "id", "2 unfinished rows have no id", m)
		})
	}
}
